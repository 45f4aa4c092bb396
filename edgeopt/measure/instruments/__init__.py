"""What is read from the device while something runs on it."""
