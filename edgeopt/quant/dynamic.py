"""Dynamic INT8 by ONNX Runtime: 8-bit weights, activation ranges found at every run."""

import tempfile
from pathlib import Path

from edgeopt.quant.qdq import quant_type
from edgeopt.quant.settings import QuantSettings


def quantize_dynamic(model: Path, settings: QuantSettings, out: Path) -> None:
    """Writes the model with 8-bit weights; needs no calibration data."""
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        quantize_dynamic(
            str(prepared),
            str(out),
            per_channel=settings.per_channel,
            reduce_range=settings.reduce_range,
            weight_type=quant_type(settings.weight_type),
        )
