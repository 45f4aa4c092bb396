"""What `edgeopt demo` does: the whole road on the built-in sample."""
