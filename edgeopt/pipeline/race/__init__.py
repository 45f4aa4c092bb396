"""Races of candidates: the contests, runtime options, and load."""
