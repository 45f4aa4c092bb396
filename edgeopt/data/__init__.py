"""What a model is given, and when what it answers is good enough."""
