"""Static INT8 by ONNX Runtime: QuantizeLinear/DequantizeLinear pairs with calibrated ranges."""

from pathlib import Path

from edgeopt.data import Samples
from edgeopt.quant.calibrate import SampleReader
from edgeopt.quant.prepared import prepared
from edgeopt.quant.settings import QuantSettings


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

    return {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile}[name]


def quant_type(name: str) -> object:
    """ONNX Runtime's enumeration for a type name of the profile."""
    from onnxruntime.quantization import QuantType

    return {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8, "int16": QuantType.QInt16}[name]
