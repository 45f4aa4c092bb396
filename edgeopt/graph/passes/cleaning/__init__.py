"""Passes that remove nodes without effect on the results, and bring a model into common form."""
