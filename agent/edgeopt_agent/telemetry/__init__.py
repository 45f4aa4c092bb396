"""Latency, memory and load, live, for those who watch."""
