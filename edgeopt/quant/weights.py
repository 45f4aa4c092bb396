"""Weight-only INT8 by NNCF: compressed weights, float activations (or quantized by groups at run time)."""

from pathlib import Path


def compress(model: Path, out: Path) -> None:
    """Writes OpenVINO IR with symmetric 8-bit weights; needs no data."""
    import nncf
    import openvino

    read = openvino.Core().read_model(model)
    compressed = nncf.compress_weights(read, mode=nncf.CompressWeightsMode.INT8_SYM)
    openvino.save_model(compressed, out, compress_to_fp16=False)
