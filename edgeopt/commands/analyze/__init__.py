"""What `edgeopt analyze` does: looks at a model or a bundle, with what the device and its runtimes say of it."""
