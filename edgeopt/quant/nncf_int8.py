"""Post-training INT8 by NNCF, on OpenVINO's form of the model."""

from pathlib import Path

from edgeopt.data import Samples


def quantize(model: Path, samples: Samples, out: Path, transformer: bool) -> None:
    """Writes OpenVINO IR with 8-bit weights and activations."""
    import nncf
    import openvino

    read = openvino.Core().read_model(model)
    quantized = nncf.quantize(
        read,
        # A list, not a generator: several passes go over it. The feeds are views of a mapped file.
        nncf.Dataset([samples.feeds(k) for k in range(len(samples))]),
        subset_size=len(samples),
        preset=nncf.QuantizationPreset.MIXED,
        # Attention's soft-maxes need the settings that NNCF keeps for transformers.
        **({"model_type": nncf.ModelType.TRANSFORMER} if transformer else {}),
    )
    openvino.save_model(quantized, out, compress_to_fp16=False)
