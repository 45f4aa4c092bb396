"""Proof of the best candidates from their written bundles, and delivery of the first that holds."""
