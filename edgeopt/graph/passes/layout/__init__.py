"""Passes that change the order of dimensions."""
