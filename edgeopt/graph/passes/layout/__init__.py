"""The order of dimensions, and the order of nodes."""
