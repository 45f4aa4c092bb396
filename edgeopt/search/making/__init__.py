"""Variants of a model: the recipes, what they start from, and the processes that make them."""
