"""What `edgeopt probe` does: this device or a recorded one, its identity and its peaks."""
