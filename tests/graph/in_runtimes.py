"""A model before and after a pass, in every runtime that runs the source: a rewrite can be wrong in one alone."""

import numpy as np
import onnx

from tests.differential.runtimes import RUNTIMES

NAMES = ("ONNX Runtime", "OpenVINO")
ROUNDING = 1e-4
"""Of a value, or of the largest of its output: runtimes sum in other orders and approximate functions."""
FAULTS = {
    ("OpenVINO", "ReduceLogSumExp"): "reduces all dimensions where the axes are an attribute",
    ("OpenVINO", "Reciprocal"): "a sum with 0 before it makes +0 of -0, which gives infinity of the other sign",
}
"""Operators that a runtime computes otherwise than the reference in the source itself, each with what it does."""


def check(before: onnx.ModelProto, after: onnx.ModelProto, feeds, wanted) -> None:
    """`wanted`: the reference's results of the source. A result that agrees with either source is right."""
    kinds = {node.op_type for node in _nodes(before.graph)}
    for runtime in NAMES:
        (source,) = RUNTIMES[runtime](before, [feeds])
        if isinstance(source, str):
            continue  # it does not run the source
        reasons = [why for (name, kind), why in FAULTS.items() if name == runtime and kind in kinds]
        (result,) = RUNTIMES[runtime](after, [feeds])
        assert not isinstance(result, str), f"{runtime} runs the source, but not the result: {result}"
        for name, right in zip(source, wanted, strict=True):
            assert reasons or _near(source[name], right), f"{runtime} differs from the reference in the source"
            said = f"{runtime} computes another {name} after the pass"
            assert _near(result[name], source[name]) or _near(result[name], right), said


def _near(got: np.ndarray, wanted: np.ndarray) -> bool:
    wanted = np.asarray(wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind not in "fV":
        return bool(np.array_equal(got, wanted))
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    largest = np.abs(b[finite]).max(initial=0.0)
    unit = max(ROUNDING, 4 * float(np.finfo(wanted.dtype).eps))
    with np.errstate(all="ignore"):
        return bool(np.where(finite, np.abs(a - b) <= unit * (np.abs(b) + largest), (a == b) | np.isnan(b)).all())


def _nodes(graph: onnx.GraphProto):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
