"""Computes the same with fewer or cheaper operators."""
