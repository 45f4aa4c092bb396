"""Long work: child processes of the command line, their events as signals."""
