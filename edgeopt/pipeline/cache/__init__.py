"""Files that are slow to make, kept by the digest of their inputs; and outcomes of earlier searches."""
