"""Using a bundle or a model: `edgeopt.load`."""
