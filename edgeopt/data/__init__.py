"""Input data of a model, and the criteria for its answers."""
