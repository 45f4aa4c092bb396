"""Synthetic inputs for a model without user data: right in type and shape, and plausible in value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgeopt.graph.nodes import constant, is_op

if TYPE_CHECKING:
    import onnx_ir as ir

Array = NDArray[Any]


class InputInfo(Protocol):
    """Description of one input, as `backends.base.TensorInfo` and others provide it."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int | str | None, ...]: ...


PASS_ON = ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Expand")
TEXT_LENGTH, IMAGE_SIDE, SIGNAL_LENGTH = 16, 64, 512
STATES = ("state", "hidden", "cell")  # state of a recurrent model: only the batch dimension varies
LENGTHS = (
    # (part of a dimension's name, size)
    ("batch", 1),
    ("seq", TEXT_LENGTH),
    ("token", TEXT_LENGTH),
    ("height", IMAGE_SIDE),
    ("width", IMAGE_SIDE),
    ("channel", 3),
)
CHANNELS = {1, 3, 4}
TRIP_COUNTS = (2, 5)
"""Trip counts to feed a Loop: 2 shows what a single iteration hides, 5 shows what grows with each iteration."""
ATTENTION_MASK = 3
"""Position of the mask among the inputs of ONNX's Attention."""
BRIGHT = 2.0
"""Mean above which a picture has values from 0 to 255; pictures with values from 0 to 1 have means below 1."""


def generate_feeds(
    inputs: Sequence[InputInfo], model_ir: "ir.Model | None", count: int, seed: int
) -> list[dict[str, Array]]:
    """Generates `count` samples, the same for the same seed; the graph, if given, restricts the values."""
    random = np.random.default_rng(seed)
    shapes = input_shapes(inputs)
    limits = limits_by_input(inputs, model_ir, shapes)
    return [
        {info.name: _array(info, shapes[info.name], limits[info.name], random) for info in inputs}
        for _ in range(count)
    ]


def limits_by_input(
    inputs: Sequence[InputInfo], model_ir: "ir.Model | None", shapes: Mapping[str, tuple[int, ...]]
) -> "dict[str, FeedLimits]":
    """Derives the allowed values of each input from its use in the graph and from its name."""
    values = {value.name: value for value in model_ir.graph.inputs} if model_ir is not None else {}
    longest = max((max(shape[1:], default=0) for shape in shapes.values()), default=0) or TEXT_LENGTH
    return {info.name: limits_of(values.get(info.name), info, shapes[info.name], longest) for info in inputs}


def input_shapes(inputs: Sequence[InputInfo]) -> dict[str, tuple[int, ...]]:
    """Chooses sizes for all dimensions of all inputs; a name shared by several inputs gets one size."""
    sizes: dict[str, int] = {}
    shapes = {}
    for info in inputs:
        shape = []
        for size, dim in zip(input_shape(info), info.shape, strict=True):
            shape.append(sizes.setdefault(dim, size) if isinstance(dim, str) else size)
        shapes[info.name] = tuple(shape)
    return shapes


def input_shape(info: InputInfo) -> tuple[int, ...]:
    """Chooses sizes for all dimensions of an input; an open one gets a size by its name or position."""
    rank = len(info.shape)
    return tuple(
        dim if isinstance(dim, int) and dim >= 0 else _size(dim, place, rank, info)
        for place, dim in enumerate(info.shape)
    )


def _size(dim: int | str | None, place: int, rank: int, info: InputInfo) -> int:
    """Chooses a size for an open dimension, by its name, else by its position."""
    name = dim.lower() if isinstance(dim, str) else ""
    signal = info.dtype.startswith("float") and rank == 2
    if "+" in name:  # `past_sequence + 1`
        parts = [part.strip() for part in name.split("+")]
        return sum(int(part) if part.isdecimal() else _size(part, place, rank, info) for part in parts)
    if name in {"n", "b"} or any(part in info.name.lower() for part in STATES):
        return 1
    for part, size in LENGTHS:
        if part in name and not signal:
            return size
    if place == 0:
        return 1
    if rank == 4:
        return 3 if place == 1 else IMAGE_SIDE
    return SIGNAL_LENGTH if signal else TEXT_LENGTH


@dataclass(frozen=True, slots=True)
class FeedLimits:
    """Limits on the values of an input."""

    integers: tuple[int, ...] | range = ()
    """Allowed integers; any small ones if empty."""
    numbers: tuple[float, float] | None = None
    """Minimum and maximum; standard normal noise if None."""
    mask: bool = False
    scores: bool = False
    """Whether the input is added to the scores before a Softmax, as masks of minus infinity are."""


def limits_of(value: "ir.Value | None", info: InputInfo, shape: tuple[int, ...], longest: int) -> FeedLimits:
    """Derives the allowed values of an input from its use in the graph and from its name."""
    name = info.name.lower()
    if info.dtype.startswith(("int", "uint")):
        if found := _integers(value):
            return FeedLimits(found)
        if "mask" in name:
            return FeedLimits(mask=True)
        if "len" in name and len(shape) <= 1:
            return FeedLimits(range(longest, longest + 1))
        return FeedLimits(range(256) if info.dtype == "uint8" else ())
    if info.dtype.startswith("float"):
        scores = _added_before_softmax(value)
        if "mask" in name:
            return FeedLimits(mask=True, scores=scores)
        return FeedLimits(numbers=_brightness(value, shape), scores=scores)
    return FeedLimits()


def _array(info: InputInfo, shape: tuple[int, ...], limits: FeedLimits, random: np.random.Generator) -> Array:
    if info.dtype == "str":
        return np.full(shape, "text", dtype=object)
    if info.dtype == "bool":
        return random.random(shape) < 0.9
    import ml_dtypes  # noqa: F401 - gives numpy the names bfloat16 and float8_*

    if limits.mask:
        return _mask(shape, random).astype(info.dtype)
    if info.dtype.startswith(("int", "uint")):
        choice = limits.integers or range(1, 8 if info.dtype.endswith("int4") else 10)
        return np.asarray(random.choice(np.asarray(choice), size=shape)).astype(info.dtype)
    if limits.numbers is not None:
        return np.asarray(random.uniform(*limits.numbers, size=shape)).astype(info.dtype)
    return np.asarray(random.standard_normal(shape)).astype(info.dtype)


def _mask(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Returns a mask of ones with zeros at the end, as padding gives; the first value is always one."""
    mask = np.ones(shape, dtype=np.int64)
    if shape and shape[-1] > 1:
        mask[..., int(random.integers(max(1, shape[-1] * 3 // 4), shape[-1] + 1)) :] = 0
    return mask


def _integers(value: "ir.Value | None") -> tuple[int, ...] | range:
    """Returns the integers that the graph accepts: rows of a table, or compared values; empty if any."""
    compared: list[int] = []
    sizes: list[int] = []
    turns: tuple[int, ...] = ()
    for node, place, through in _readers(value):
        table = _table(node, place)
        if table is not None:
            sizes.append(table)
        elif is_op(node, "Equal"):
            other = constant(node.inputs[1 - place])
            if other is not None and other.size == 1 and through == 0:
                compared.append(int(other.item()))
        elif is_op(node, "TopK", "Tile", "ConstantOfShape") and place < 2:
            return range(1, 2)  # how many, how often, how large
        elif is_op(node, "Loop") and place == 0:
            turns = TRIP_COUNTS
    if sizes:
        return range(min(sizes))
    # An exporter writes the first comparison for the case that it traced.
    return turns or tuple(compared[:1])


TABLES = (
    # (operator, place of the indices, place of the table, the attribute that names the axis)
    ("Gather", 1, 0, "axis"),
    ("GatherElements", 1, 0, "axis"),
    ("EmbedLayerNormalization", 0, 2, ""),
    ("EmbedLayerNormalization", 1, 4, ""),
)


def _table(node: "ir.Node", place: int) -> int | None:
    """Returns the number of rows of the table that a node looks this input up in, else None."""
    if is_op(node, "OneHot") and place == 0:
        depth = constant(node.inputs[1])
        return None if depth is None else int(depth.item())
    for operator, indices, table, attribute in TABLES:
        if node.op_type == operator and place == indices and len(node.inputs) > table:
            value = node.inputs[table]
            axis = node.attributes.get_int(attribute, 0) if attribute else 0
            size = value.shape[axis] if value is not None and value.shape is not None else None
            return size if isinstance(size, int) and size > 0 else None
    return None


def _brightness(value: "ir.Value | None", shape: tuple[int, ...]) -> tuple[float, float] | None:
    """Returns the value range of a picture, if the graph starts with the usual normalization of pictures."""
    if value is None or len(shape) not in {3, 4} or not CHANNELS & {shape[-1], shape[-3]}:
        return None
    for node, place, _ in _readers(value):
        other = constant(node.inputs[1 - place]) if is_op(node, "Div", "Mul", "Sub") else None
        if other is None or not other.size or (place == 1 and not is_op(node, "Mul")):
            continue
        largest = float(np.abs(other.astype(np.float64)).max())
        if is_op(node, "Div"):
            return (0.0, 255.0) if largest > BRIGHT else (0.0, 1.0)
        if is_op(node, "Mul"):
            return (0.0, 255.0) if largest < 1 / BRIGHT else (0.0, 1.0)
        return (0.0, 255.0) if largest > BRIGHT else (0.0, 1.0)
    return None


def _added_before_softmax(value: "ir.Value | None") -> bool:
    """Whether the graph adds a value to scores; a decomposed Softmax starts with the maximum of a row."""
    for node, place, _ in _readers(value, ("Slice", "Transpose")):
        if is_op(node, "Attention") and place == ATTENTION_MASK:
            return True
        if is_op(node, "Add", "Sum") and any(
            is_op(reader, "Softmax", "LogSoftmax", "ReduceMax")
            for reader, *_ in _readers(node.outputs[0], ("Add", "Sum"))
        ):
            return True
    return False


def _readers(value: "ir.Value | None", more: tuple[str, ...] = ()) -> "Iterator[tuple[ir.Node, int, int]]":
    """Yields the readers of a value, also after nodes that only change its type or shape, including subgraphs.

    `more` names further operators to follow, from any of their inputs.
    """
    waiting = [(value, 0)] if value is not None else []
    while waiting:
        current, through = waiting.pop()
        for node, place in current.uses():
            yield node, place, through
            if through < 8 and ((is_op(node, *PASS_ON) and place == 0) or is_op(node, *more)):
                waiting.append((node.outputs[0], through + (not is_op(node, "Identity", "Cast"))))
