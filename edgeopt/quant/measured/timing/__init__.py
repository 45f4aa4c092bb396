"""The gains of each scheme of each layer, on each backend with its options."""
