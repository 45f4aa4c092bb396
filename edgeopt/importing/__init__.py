"""Models from other frameworks as ONNX models, proved against the original."""
