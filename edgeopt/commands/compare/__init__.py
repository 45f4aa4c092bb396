"""Comparison of two models by outputs, layers and graphs, side by side: `edgeopt compare`."""
