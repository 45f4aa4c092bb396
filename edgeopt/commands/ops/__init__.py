"""Single operators on this device: whether each backend gets them right, and how fast it is at them."""
