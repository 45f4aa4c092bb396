"""Static INT8 by ONNX Runtime: QuantizeLinear/DequantizeLinear pairs with calibrated ranges."""

from pathlib import Path

from edgeopt.backends.base import Array
from edgeopt.data import Samples
from edgeopt.errors import ModelError
from edgeopt.quant.prepared import prepared
from edgeopt.quant.settings import QuantSettings


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


def quantize_static(model: Path, samples: Samples, settings: QuantSettings, out: Path) -> None:
    """Writes the model with 8-bit weights and activations; the model's opset must be 13 or later."""
    from onnxruntime.quantization import QuantFormat, quantize_static

    with prepared(model, out.parent) as ready:
        quantize_static(
            str(ready),
            str(out),
            SampleReader(samples),
            quant_format=QuantFormat.QDQ,
            per_channel=settings.per_channel,
            reduce_range=settings.reduce_range,
            activation_type=quant_type(settings.activation_type),
            weight_type=quant_type(settings.weight_type),
            calibrate_method=_calibration(settings.calibration),
        )


def _calibration(name: str) -> object:
    """ONNX Runtime's enumeration for a calibration of the profile."""
    from onnxruntime.quantization import CalibrationMethod

    # Not its entropy: it gets as many bins as there are steps, and so finds the ranges of minmax.
    known = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile}
    if name not in known:
        raise ModelError(
            f"ONNX Runtime's own quantization has no calibration '{name}'.",
            f"Plans have it; for this variant, choose {' or '.join(known)} in [quantization].",
        )
    return known[name]


def quant_type(name: str) -> object:
    """ONNX Runtime's enumeration for a type name of the profile."""
    from onnxruntime.quantization import QuantType

    return {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8, "int16": QuantType.QInt16}[name]
