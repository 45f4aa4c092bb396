"""The desktop app: runs the command line and shows its events."""
