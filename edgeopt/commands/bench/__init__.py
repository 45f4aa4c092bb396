"""Measurement of sides that take turns, from the user's names to a report: `edgeopt bench` and `watch`."""
