"""Differences between Linux, macOS and Windows: processes, pipes, files, signals, folders of the user."""
