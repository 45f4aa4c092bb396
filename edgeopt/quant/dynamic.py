"""Dynamic INT8 by ONNX Runtime: 8-bit weights, activation ranges found at every run."""

from pathlib import Path

from edgeopt.quant.prepared import prepared
from edgeopt.quant.qdq import quant_type
from edgeopt.quant.settings import QuantSettings


def quantize_dynamic(model: Path, settings: QuantSettings, out: Path) -> None:
    """Writes the model with 8-bit weights; needs no calibration data."""
    from onnxruntime.quantization import quantize_dynamic

    with prepared(model, out.parent) as ready:
        quantize_dynamic(
            str(ready),
            str(out),
            per_channel=settings.per_channel,
            reduce_range=settings.reduce_range,
            weight_type=quant_type(settings.weight_type),
        )
