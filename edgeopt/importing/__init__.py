"""Import of models from other frameworks as ONNX models, proved against the original."""
