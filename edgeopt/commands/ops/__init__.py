"""Tests of single operators: whether each backend computes them correctly, and how fast: `edgeopt ops`."""
