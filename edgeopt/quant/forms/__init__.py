"""Forms: ways to compute a layer in fewer bits, one file each."""
