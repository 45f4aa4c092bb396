"""The error of each scheme of each layer at the outputs."""
