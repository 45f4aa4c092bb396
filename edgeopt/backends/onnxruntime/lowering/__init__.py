"""Forms of a graph that only ONNX Runtime understands."""
