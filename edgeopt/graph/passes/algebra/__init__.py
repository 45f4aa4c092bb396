"""Passes that compute the same with fewer or cheaper operators."""
