"""ONNX Runtime, with one execution provider in each file."""
