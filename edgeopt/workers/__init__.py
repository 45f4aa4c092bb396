"""Worker processes: one protocol, one client, one table of tasks, one guard."""
