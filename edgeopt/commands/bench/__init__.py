"""What `edgeopt bench` and `watch` do: from what the user named to sides that take turns, and a report."""
