"""Readings of the device while something runs on it."""
