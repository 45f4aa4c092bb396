"""What `edgeopt quantize` does: from a model and data to a plan that was proved, and a file."""
