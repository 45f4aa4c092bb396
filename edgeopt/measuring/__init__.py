"""What `edgeopt bench`, `watch` and `ops` do: from what the user named to sides that take turns, and a report."""
