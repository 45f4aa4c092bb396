"""Hands calibration samples to ONNX Runtime, one at a time."""

from edgeopt.backends.base import Array
from edgeopt.data import Samples


class SampleReader:
    """The reader that onnxruntime.quantization asks for its inputs."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._next = 0

    def get_next(self) -> dict[str, Array] | None:
        if self._next >= len(self._samples):
            return None
        self._next += 1
        return self._samples.feeds(self._next - 1)

    def rewind(self) -> None:
        self._next = 0
