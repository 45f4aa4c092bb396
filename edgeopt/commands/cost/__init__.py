"""Cost of measured work, and whether a saving is worth the effort: `edgeopt cost`."""
