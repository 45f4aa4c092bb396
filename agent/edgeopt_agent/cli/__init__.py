"""The agent's command line: one file a command, or a few that belong together."""
