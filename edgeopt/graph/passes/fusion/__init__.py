"""Several nodes become the one operator that they spell out."""
