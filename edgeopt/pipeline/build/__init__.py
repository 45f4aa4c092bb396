"""Builds variants of a model, each in a worker process."""
