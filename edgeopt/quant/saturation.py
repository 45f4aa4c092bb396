"""What a file of eight-bit products computes on a CPU that adds pairs of them in 16 bits: x86 without VNNI.

Simulated, so that any device can tell: a twin of the file runs in floats, and what the pairs of each product lose
is counted in numpy on its real inputs, from the first products to the last, since what is lost early changes all
that follows.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.nodes import is_op
from edgeopt.quant.integer_products import Product, Twin, twin_of
from edgeopt.quant.pairs import lost_by, windows

if TYPE_CHECKING:
    import onnx_ir as ir

Outputs = list[dict[str, Array]]


class Saturated(msgspec.Struct, frozen=True):
    """One product on such a CPU."""

    layer: str
    cut: int
    """How many sums of pairs do not fit into 16 bits."""
    sums: int

    @property
    def share(self) -> float:
        return self.cut / self.sums if self.sums else 0.0

    @property
    def sentence(self) -> str:
        return f"{percent(self.share)} of the pairs in '{self.layer}' overflow 16 bits."


@dataclass(frozen=True, slots=True)
class Saturation:
    layers: tuple[Saturated, ...]
    """Every product of unsigned by signed eight-bit numbers, in the order of the graph."""
    outputs: Outputs
    """What such a CPU gives for each sample."""
    exact: Outputs
    """The same where pairs are added in 32 bits."""
    snr_db: float
    """The one against the other."""
    left_out: tuple[str, ...]
    """Products written in a way that is not simulated."""

    @property
    def cut(self) -> tuple[Saturated, ...]:
        """Those that lose something, the most hit first."""
        return tuple(sorted((each for each in self.layers if each.cut), key=lambda each: -each.share))


def simulate(model: "ir.Model", samples: Samples) -> Saturation:
    """Runs the samples through the file as a CPU with VPMADDUBSW and without VNNI computes it."""
    twin = twin_of(model)
    tally = {each.name: _Lost() for each in twin.products}
    run = _runner(twin)
    still = {each.excess: np.zeros((), np.float32) for each in twin.products}
    exposed = [each for each in twin.products if each.exposed]
    outputs, exact = [], []
    for index in range(len(samples)):
        feeds = samples.feeds(index)
        exact.append(run(twin.outputs, {**feeds, **still}))
        losses: dict[str, Array] = {}
        for level in sorted({each.level for each in exposed}):
            now = [each for each in exposed if each.level == level]
            wanted = dict.fromkeys(name for each in now for name in (each.reads, each.zero_from) if name)
            seen = run(tuple(wanted), {**feeds, **still, **losses})
            losses |= {each.excess: _loss(each, seen, feeds, tally[each.name]) for each in now}
        outputs.append(run(twin.outputs, {**feeds, **still, **losses}) if losses else exact[-1])
    layers = tuple(Saturated(name, each.cut, each.sums) for name, each in tally.items())
    return Saturation(layers, outputs, exact, compare_outputs(exact, outputs).snr_db, twin.left_out)


def percent(share: float) -> str:
    """A share for people: 0.3 %, 12 %, or less than 0.1 %."""
    if 0 < share < 0.001:
        return "less than 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


@dataclass(slots=True)
class _Lost:
    cut: int = field(default=0)
    sums: int = field(default=0)


def _loss(product: Product, seen: Mapping[str, Array], feeds: Mapping[str, Array], tally: _Lost) -> Array:
    """What the product loses, in the shape and the units of its result."""
    values = seen[product.reads] if product.reads in seen else feeds[product.reads]
    zero = int(np.asarray(seen[product.zero_from]).reshape(-1)[0]) if product.zero_from else product.zero
    numbers, zero = _bytes(values, product, zero)
    if not is_op(product.node, "Conv"):
        rows = numbers.reshape(-1, numbers.shape[-1])
        found = _counted(rows, product.matrices[0], tally) * product.units
        return found.reshape(*numbers.shape[:-1], -1).astype(np.float32)
    parts = [_of_image(product, image, zero, tally) for image in numbers]
    units = np.asarray(product.units, np.float32).reshape(-1, *([1] * (numbers.ndim - 2)))
    return (np.stack(parts) * units).astype(np.float32)


def _of_image(product: Product, image: Array, zero: int, tally: _Lost) -> Array:
    """[outputs, ...]"""
    node, rank = product.node, image.ndim - 1
    strides, dilations = _list(node, "strides", [1] * rank), _list(node, "dilations", [1] * rank)
    told = node.attributes.get("auto_pad")
    pads = [0] * (2 * rank) if told is not None and told.as_string() == "VALID" else None
    pads = _list(node, "pads", [0] * (2 * rank)) if pads is None else pads
    groups = np.split(image, len(product.matrices))
    results = []
    for matrix, group in zip(product.matrices, groups, strict=True):
        rows, sizes = windows(group, product.kernel, strides, dilations, pads, zero)
        results.append(_counted(rows, matrix, tally).T.reshape(-1, *sizes))
    return np.concatenate(results)


def _counted(rows: Array, matrix: Array, tally: _Lost) -> Array:
    lost = lost_by(rows, matrix)
    tally.cut += lost.cut
    tally.sums += lost.sums
    return lost.excess


def _bytes(values: Array, product: Product, zero: int) -> tuple[Array, int]:
    """Unsigned bytes as the kernel has them, and what stands for zero among them."""
    if product.scale is not None:
        limits = (-128, 127) if product.signed else (0, 255)
        values = np.clip(np.rint(values / np.float32(product.scale)) + zero, *limits)
    shift = 128 if product.signed else 0
    return (values.astype(np.int16) + shift).astype(np.uint8), zero + shift


def _list(node: "ir.Node", name: str, default: Sequence[int]) -> list[int]:
    attribute = node.attributes.get(name)
    return list(attribute.as_ints()) if attribute is not None else list(default)


def _runner(twin: Twin) -> Any:  # noqa: ANN401 - ONNX Runtime has no types
    import onnxruntime as ort

    from edgeopt.graph.files.saving import save

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    # Its own products of integers would cut off as well, on a CPU that does.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    path_only = ort.RunOptions()
    path_only.only_execute_path_to_fetches = True
    with TemporaryDirectory(prefix="edgeopt-saturation-") as folder:
        path = Path(folder) / "twin.onnx"
        save(twin.model, path)
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = {each.name for each in session.get_inputs()}

    def run(names: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
        given = {name: array for name, array in feeds.items() if name in inputs}
        outer = [name for name in names if name not in inputs]
        got = session.run(outer, given, path_only) if outer else []
        return {**dict(zip(outer, got, strict=True)), **{name: feeds[name] for name in names if name in inputs}}

    return run
