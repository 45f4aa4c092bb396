"""Recipes of libraries, which quantize the whole model in seconds: NNCF, and ONNX Runtime's own tools."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgeopt import units
from edgeopt.backends.base import Feeds
from edgeopt.errors import ModelError
from edgeopt.graph.ledger import Ledger
from edgeopt.pipeline.builders.messages import REPAIR_BASE, REPAIRED, BuildTask
from edgeopt.pipeline.plans.recipe import OPENVINO, ORT, Recipe

_MAX_SAMPLES = 100


def _by_nncf(task: BuildTask) -> Ledger:
    from edgeopt.quant.libraries import quantize_by_nncf

    reduce_range = task.settings.reduce_range
    return (quantize_by_nncf(task.base, task.out, _samples(task), transformer=False, reduce_range=reduce_range),)


def _by_nncf_for_transformers(task: BuildTask) -> Ledger:
    from edgeopt.quant.libraries import quantize_by_nncf

    unpacked = _unpacked(task.out)
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    settings = {"transformer": True, "reduce_range": task.settings.reduce_range}
    return (quantize_by_nncf(task.base, task.out, _samples(task), **settings, unpacked=unpacked),)


def _unpacked(out: Path) -> Path:
    """Returns the path of the unpacked model for the repair, in its own folder: a bundle takes all files there."""
    return out.parents[1] / "nncf-unpacked" / "model.xml"


def _weights_by_nncf(task: BuildTask) -> Ledger:
    from edgeopt.quant.libraries import compress_weights

    return (compress_weights(task.base, task.out),)


def _four_bit_weights_by_nncf(task: BuildTask) -> Ledger:
    from edgeopt.quant.libraries import compress_weights

    return (compress_weights(task.base, task.out, four_bits=True),)


def _weights_by_onnxruntime(bits: int, task: BuildTask) -> Ledger:
    from edgeopt.quant.libraries import quantize_weights

    return (quantize_weights(task.base, task.out, bits),)


def _by_onnxruntime(task: BuildTask) -> Ledger:
    from edgeopt.quant.libraries import quantize_by_onnxruntime

    return (quantize_by_onnxruntime(task.base, task.out, _samples(task), reduce_range=task.settings.reduce_range),)


def _dynamic_by_onnxruntime(task: BuildTask) -> Ledger:
    from edgeopt.quant.libraries import quantize_dynamic

    return (quantize_dynamic(task.base, task.out, reduce_range=task.settings.reduce_range),)


def _samples(task: BuildTask) -> list[Feeds]:
    samples = task.calibration
    if samples is None:
        raise ModelError("Quantizing needs data.", "Pass samples with --data.")
    return [samples.feeds(number) for number in range(min(len(samples), _MAX_SAMPLES))]


def repair_limit_s(size_bytes: int) -> float:
    """Returns the time limit: 10 s up to 10 MB, 25 s from 30 MB on, so that a plan has time after the repair."""
    return 10.0 + 15.0 * min(max(size_bytes / 1e6 - 10.0, 0.0), 20.0) / 20.0


def _repaired(task: BuildTask) -> Ledger:
    from edgeopt.quant.repair import repair

    assert task.repair_floor_db is not None  # noqa: S101 - the builder gives it
    choosing = [task.check_samples.feeds(number) for number in range(len(task.check_samples))]
    quantized = _unpacked(task.out)
    if not quantized.is_file():  # the variant came from the cache
        _by_nncf_for_transformers(replace(task, out=quantized.parent / "packed.xml"))
    limit_s = repair_limit_s(task.base.stat().st_size)
    found = repair(task.base, quantized, task.out, choosing, task.repair_floor_db, limit_s=limit_s)
    return (found.entry,)


def _without_products(operators: Mapping[str, int]) -> str:
    return "" if {"MatMul", "Gemm", "Attention", "LSTM"} & operators.keys() else "the model has no matrix products"


def _with_more_convolutions(operators: Mapping[str, int]) -> str:
    products = operators.get("MatMul", 0) + operators.get("Gemm", 0)
    convolutions = operators.get("Conv", 0)
    if products > convolutions:
        return ""
    if not products:
        return "the model has no matrix products"
    count = units.count(products, "matrix product")
    return f"the model has only {count} beside {units.count(convolutions, 'convolution')}"


_nncf = partial(
    Recipe, file="model.xml", backends=OPENVINO, needs=("nncf", "openvino"), needs_data=True, whole=True
)
_ort = partial(Recipe, file="model.onnx", backends=ORT, needs=("onnxruntime", "onnx"), needs_data=True, whole=True)

NNCF_INT8 = _nncf("nncf-int8", "all layers in int8, by NNCF", make=_by_nncf, calibrates=True)
NNCF_TRANSFORMER = _nncf(
    REPAIR_BASE,
    "all layers in int8, by NNCF with transformer settings",
    make=_by_nncf_for_transformers,
    calibrates=True,
)
NNCF_WEIGHTS = _nncf(
    "nncf-weights", "all weights in int8, by NNCF", make=_weights_by_nncf, unsuited=_with_more_convolutions
)
NNCF_WEIGHTS4 = _nncf(
    "nncf-weights4", "weights of products in int4, by NNCF", make=_four_bit_weights_by_nncf, of_decoders=True
)
ORT_INT8 = _ort("ort-int8", "all layers in int8, by ONNX Runtime", make=_by_onnxruntime, calibrates=True)
ORT_DYNAMIC = _ort(
    "ort-dynamic",
    "matrix products and recurrent layers in int8, by ONNX Runtime",
    make=_dynamic_by_onnxruntime,
    unsuited=_without_products,
)
ORT_WEIGHTS8, ORT_WEIGHTS4 = (
    _ort(
        f"ort-weights{bits}",
        f"weights of products in {bits} bits by blocks, by ONNX Runtime",
        make=partial(_weights_by_onnxruntime, bits),
        of_decoders=True,
    )
    for bits in (8, 4)
)
NNCF_REPAIRED = Recipe(
    REPAIRED,
    "int8 by NNCF, with the layers in float that the floor needs",
    "model.xml",
    OPENVINO,
    _repaired,
    ("nncf", "openvino"),
    needs_data=True,
)
