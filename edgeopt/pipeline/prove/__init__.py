"""Proves the best candidates from their written bundles, and delivers the first that holds."""
