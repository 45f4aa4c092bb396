"""What is done to a model before it is quantized, so that less is lost."""
