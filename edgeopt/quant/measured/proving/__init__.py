"""Accuracy and speed of the result, and how it is written."""
