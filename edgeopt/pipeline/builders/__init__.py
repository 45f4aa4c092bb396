"""Construction of a model's variants, each in a worker process."""
