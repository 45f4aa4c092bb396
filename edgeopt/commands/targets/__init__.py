"""What `edgeopt targets` and its commands do: all targets, one in full, one of your own."""
