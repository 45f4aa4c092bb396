"""Inputs made up for a model when the user gave no data: right in type and shape, and plausible in value."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgeopt.graph.passes.base import constant, is_op

if TYPE_CHECKING:
    import onnx_ir as ir

Array = NDArray[Any]


class InputInfo(Protocol):
    """One input, as `backends.base.TensorInfo` and others describe it."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int | str | None, ...]: ...


PASS_ON = ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Expand")
TEXT_LENGTH, IMAGE_SIDE, SIGNAL_LENGTH = 16, 64, 512
STATES = ("state", "hidden", "cell")  # what a recurrent model hands to itself: all but the batch is fixed
LENGTHS = (
    # (part of a dimension's name, size)
    ("batch", 1),
    ("seq", TEXT_LENGTH),
    ("token", TEXT_LENGTH),
    ("height", IMAGE_SIDE),
    ("width", IMAGE_SIDE),
    ("channel", 3),
)


def generate_feeds(
    inputs: Sequence[InputInfo], model_ir: "ir.Model | None", count: int, seed: int
) -> list[dict[str, Array]]:
    """`count` samples, the same for the same seed; the graph, where given, says which integers make sense."""
    random = np.random.default_rng(seed)
    values = {value.name: value for value in model_ir.graph.inputs} if model_ir is not None else {}
    makers = [(info, _shape(info), _range(values.get(info.name))) for info in inputs]
    return [
        {info.name: _array(info, shape, limits, random) for info, shape, limits in makers} for _ in range(count)
    ]


def _shape(info: InputInfo) -> tuple[int, ...]:
    rank = len(info.shape)
    return tuple(
        dim if isinstance(dim, int) and dim >= 0 else _size(dim, place, rank, info)
        for place, dim in enumerate(info.shape)
    )


def _size(dim: int | str | None, place: int, rank: int, info: InputInfo) -> int:
    """A size for a dimension that the model leaves open: by its name, else by its place."""
    name = dim.lower() if isinstance(dim, str) else ""
    signal = info.dtype.startswith("float") and rank == 2
    if place == 0 or name in {"n", "b"} or any(part in info.name.lower() for part in STATES):
        return 1
    for part, size in LENGTHS:
        if part in name and not signal:
            return size
    if rank == 4:
        return 3 if place == 1 else IMAGE_SIDE
    return SIGNAL_LENGTH if signal else TEXT_LENGTH


def _array(
    info: InputInfo, shape: tuple[int, ...], limits: tuple[int, ...] | range, random: np.random.Generator
) -> Array:
    if info.dtype == "str":
        return np.full(shape, "text", dtype=object)
    if info.dtype == "bool":
        return random.random(shape) < 0.9
    if info.dtype.startswith(("int", "uint")):
        if limits:
            return np.asarray(random.choice(np.asarray(limits), size=shape)).astype(info.dtype)
        if "mask" in info.name.lower():
            return _mask(shape, random).astype(info.dtype)
        if info.dtype == "uint8":
            return random.integers(0, 256, size=shape, dtype=np.uint8)
        return np.asarray(random.integers(1, 10, size=shape)).astype(info.dtype)
    import ml_dtypes  # noqa: F401 - gives numpy the names bfloat16 and float8_*

    return np.asarray(random.standard_normal(shape)).astype(info.dtype)


def _mask(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Ones, and zeros at the end as padding makes them; the first is always one."""
    mask = np.ones(shape, dtype=np.int64)
    if shape and shape[-1] > 1:
        mask[..., int(random.integers(max(1, shape[-1] * 3 // 4), shape[-1] + 1)) :] = 0
    return mask


def _range(value: "ir.Value | None") -> tuple[int, ...] | range:
    """The integers that the graph can take: places in a table, or what it compares with; empty for any."""
    compared: list[int] = []
    for node, place, through in _readers(value):
        if is_op(node, "Gather") and place == 1 and (size := _table_size(node)):
            return range(size)
        if is_op(node, "Equal"):
            other = constant(node.inputs[1 - place])
            if other is not None and other.size == 1 and through == 0:
                compared.append(int(other.item()))
    # The first comparison is the one that an exporter writes for the case it was traced with.
    return tuple(compared[:1])


def _readers(value: "ir.Value | None") -> "Iterator[tuple[ir.Node, int, int]]":
    """The nodes that read a value, also behind nodes that only change its type or shape, in subgraphs too."""
    waiting = [(value, 0)] if value is not None else []
    while waiting:
        current, through = waiting.pop()
        for node, place in current.uses():
            yield node, place, through
            if is_op(node, *PASS_ON) and place == 0 and through < 8:
                waiting.append((node.outputs[0], through + (not is_op(node, "Identity", "Cast"))))


def _table_size(gather: "ir.Node") -> int | None:
    table = gather.inputs[0]
    if table is None or table.shape is None:
        return None
    axis = gather.attributes["axis"].as_int() if "axis" in gather.attributes else 0
    size = table.shape[axis]
    return size if isinstance(size, int) else None
