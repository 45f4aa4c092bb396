"""What `edgeopt cost` does: from what was measured to what it costs, and whether the saving is worth the work."""
