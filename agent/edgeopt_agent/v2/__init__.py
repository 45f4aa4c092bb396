"""The Open Inference Protocol v2, REST with binary tensors: what its requests and answers mean."""
