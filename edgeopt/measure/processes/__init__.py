"""What keeps child processes in order: how they are served, guarded and ended, and where they work."""
