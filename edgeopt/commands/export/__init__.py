"""Export of a bundle to other forms, for systems without edgeopt: `edgeopt export`."""
