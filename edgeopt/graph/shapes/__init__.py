"""Shapes of tensors: inferred ones, sizes in symbols, and the small values that shapes are computed with."""
