"""Who is fast: the screen, the contests, and what of the runtime options is tried."""
