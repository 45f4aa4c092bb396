"""What each form of each layer saves, on each backend with its options."""
