"""Whole models in fewer bits, by the libraries of the runtimes: what their users get in one call."""
