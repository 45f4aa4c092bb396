"""Takes away what has no effect on the results, and brings a model into common form."""
