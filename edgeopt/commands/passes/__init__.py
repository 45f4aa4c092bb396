"""What `edgeopt passes` does: the rewrites there are, and how one of them works."""
