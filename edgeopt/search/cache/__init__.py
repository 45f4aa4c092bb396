"""Files that are slow to make, kept by the digest of all that they depend on; what they are, the caller knows."""
