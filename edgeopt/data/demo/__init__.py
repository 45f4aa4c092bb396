"""A small trained model with data, for the demo: a CNN for scikit-learn's handwritten digits (top-1 0.99)."""

from pathlib import Path

MODEL = Path(__file__).with_name("digits_cnn.onnx")
DATA = Path(__file__).with_name("digits_cnn.npz")
