"""Export of a bundle to other formats, for systems without edgeopt: `edgeopt export`."""
