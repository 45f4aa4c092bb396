"""What `edgeopt export` does: a bundle in other forms, for what does not know edgeopt."""
