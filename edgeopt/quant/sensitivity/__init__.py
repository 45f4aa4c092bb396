"""What each form of each layer costs at the outputs."""
