"""NNCF's own quantization of a whole model, for OpenVINO."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.base import Feeds
from edgeopt.backends.openvino.model import read_model, write_model
from edgeopt.errors import ModelError, said_by
from edgeopt.graph.ledger import Change, LedgerEntry

if TYPE_CHECKING:
    from openvino import Model

_QUANTIZED, _COMPRESSED = "FakeQuantize", {"i8", "u8", "i4", "u4"}


def quantize_by_nncf(base: Path, out: Path, samples: Sequence[Feeds], *, transformer: bool) -> LedgerEntry:
    """Weights and activations in eight bits; `transformer`: as NNCF does for these, with SmoothQuant."""
    import nncf

    model = read_model(base)
    _check_float(model)
    count = len(model.get_ops())
    with _quiet():
        made = nncf.quantize(
            model,
            nncf.Dataset([dict(each) for each in samples]),
            subset_size=len(samples),
            preset=nncf.QuantizationPreset.MIXED,
            model_type=nncf.ModelType.TRANSFORMER if transformer else None,
        )
    return _written(made, out, "nncf-transformer" if transformer else "nncf-int8", count)


def compress_weights(base: Path, out: Path) -> LedgerEntry:
    """Weights of matrix products in eight bits, symmetric; activations stay as they are."""
    import nncf

    model = read_model(base)
    _check_float(model)
    count = len(model.get_ops())
    with _quiet():
        made = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    return _written(made, out, "nncf-weights", count)


def _check_float(model: "Model") -> None:
    if any(op.get_type_name() == _QUANTIZED for op in model.get_ops()):
        raise ModelError("The model is already quantized.", "Give the float model.")


def _written(model: "Model", out: Path, name: str, nodes_before: int) -> LedgerEntry:
    ops = model.get_ordered_ops()
    readers = [
        reader.get_node().get_friendly_name()
        for op in ops
        if op.get_type_name() == _QUANTIZED
        or (op.get_type_name() == "Constant" and op.get_output_element_type(0).get_type_name() in _COMPRESSED)
        for reader in op.output(0).get_target_inputs()
    ]
    if not readers:
        raise ModelError("NNCF found nothing to quantize in this model.")
    write_model(model, out)
    what = "read weights in eight bits" if name == "nncf-weights" else "computed in eight bits"
    nodes = tuple(dict.fromkeys(readers))
    return LedgerEntry(name, applied=(Change(what, nodes),), nodes_before=nodes_before, nodes_after=len(ops))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """NNCF draws its progress on stdout, where answers go, and says how it fails in its own classes."""
    import logging

    import nncf

    nncf.set_log_level(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (nncf.InternalError, nncf.ValidationError, nncf.UnsupportedModelError, RuntimeError) as error:
        raise ModelError(f"NNCF cannot quantize the model: {said_by(error)}") from error
