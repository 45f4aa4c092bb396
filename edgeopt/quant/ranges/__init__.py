"""The ranges of activations: how they are found, one file a method."""
