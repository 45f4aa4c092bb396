"""What a bundle does before and after its model: as ONNX, or by declared steps."""
