"""ONNX Runtime, one execution provider a file."""
