"""The choice of a scheme for each layer: the most time saved within the allowed error."""
