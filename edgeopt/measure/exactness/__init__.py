"""Checks that a rewritten model gives its source's outputs in every regime of inputs, apart from rounding."""
