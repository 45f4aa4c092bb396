"""What `edgeopt compare` does: the outputs, the layers and the graphs of two models, side by side."""
