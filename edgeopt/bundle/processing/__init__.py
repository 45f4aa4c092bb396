"""Pre- and postprocessing of a bundle: as ONNX, or by declared steps."""
