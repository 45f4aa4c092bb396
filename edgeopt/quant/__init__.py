"""Precision as the libraries give it: one file a method, each writes one variant."""
