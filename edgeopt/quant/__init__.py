"""Quantization: the layers of a model, the ranges of their values, and schemes that compute them in fewer bits."""
