"""`edgeopt graph`: a model as a diagram."""
