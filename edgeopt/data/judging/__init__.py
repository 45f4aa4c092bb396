"""Accuracy budgets and their metrics, which decide whether a result is good enough."""
