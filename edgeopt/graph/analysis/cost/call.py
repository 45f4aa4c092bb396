"""One use of an operator as the cost rules see it, and the minimum bytes that it moves.

- Operators that only rename or reshape the same bytes (Reshape, Squeeze, Unsqueeze, Flatten, Identity) move none:
  runtimes let the result lie where the input lies.
- Operators that take a part of a tensor (Gather, Slice, an embedding) read that part, and its indices.
- Shape and Size read nothing.
- Operators that put a part into a tensor (ScatterND) copy the rest, because they may not change their input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

Number = int | float
Attribute = Number | str | tuple[Number, ...] | tuple[str, ...]
Shape = tuple[int, ...]


class Unknown(Exception):  # noqa: N818 - no error: the reason why a figure cannot be told
    """Raised by a rule if the cost is unknown; its text is the end of a sentence.

    `kind` is equal for all tensors, while the text names one.
    """

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class Arithmetic(NamedTuple):
    """Arithmetic of one run; operations that are not part of a MAC count in `other`."""

    macs: int = 0
    other: int = 0

    @property
    def operations(self) -> int:
        return 2 * self.macs + self.other


NOTHING = Arithmetic()


@dataclass(frozen=True, slots=True)
class Operand:
    name: str = ""
    shape: Shape | None = None
    bits: int | None = None
    """Size of one element in bits; None for types without a fixed size, such as strings."""
    values: tuple[Number, ...] | None = None
    """Elements of a small constant; None for other operands."""
    reason: str = ""
    """Reason why the size is unknown, if not for a missing shape; `{}` marks the place of the name."""

    def known_shape(self) -> Shape:
        if self.shape is None:
            raise self._unknown("the shape of {} is known only at run time")
        return self.shape

    def count(self) -> int:
        return prod(self.known_shape())

    def size_bytes(self) -> int:
        if self.bits is None:
            raise self._unknown("the type of {} has no fixed size")
        return -(-self.count() * self.bits // 8)

    def _unknown(self, otherwise: str) -> Unknown:
        reason = self.reason or otherwise
        return Unknown(reason.format(f"'{self.name}'"), reason.format("a tensor"))


@dataclass(frozen=True, slots=True)
class Call:
    operator: str
    inputs: tuple[Operand | None, ...]
    """Operands by position; None for an omitted optional input."""
    outputs: tuple[Operand | None, ...]
    domain: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def has(self, position: int) -> bool:
        return position < len(self.inputs) and self.inputs[position] is not None

    def input(self, position: int) -> Operand:
        operand = self.inputs[position] if position < len(self.inputs) else None
        if operand is None:
            raise Unknown(f"its input {position + 1} is missing")
        return operand

    def output(self) -> Operand:
        found = next((operand for operand in self.outputs if operand is not None), None)
        if found is None:
            raise Unknown("it has no output")
        return found

    def shape(self, position: int) -> Shape:
        return self.input(position).known_shape()

    def axis(self, position: int, place: int) -> int:
        """Returns the size of an input along one axis."""
        shape = self.shape(position)
        if not -len(shape) <= place < len(shape):
            raise Unknown(f"its input {position + 1} has {len(shape)} dimensions, fewer than expected")
        return shape[place]

    def input_size(self) -> int:
        """Returns the number of elements of the first input."""
        return self.input(0).count()

    def out(self) -> int:
        """Returns the number of elements of the first output."""
        return self.output().count()

    def whole(self, name: str, default: int = 0) -> int:
        value = self.attributes.get(name, default)
        return int(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str = "") -> str:
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def wholes(self, name: str) -> tuple[int, ...] | None:
        value = self.attributes.get(name)
        return tuple(int(each) for each in value) if isinstance(value, tuple) else None


Rule = Callable[[Call], Arithmetic]


def rules(names: str, rule: Rule) -> dict[str, Rule]:
    """Returns a table with the same rule for several operators."""
    return dict.fromkeys(names.split(), rule)


ALIASES = (
    *("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "ExpandDims"),
    *("Optional", "OptionalGetElement"),
)
"""Operators whose output is their input under another name; for `Constant`, a weight under another name."""
ONLY_SHAPES = ("Shape", "Size", "SequenceLength", "OptionalHasElement", "EyeLike", "RandomNormalLike",
                "RandomUniformLike")  # fmt: skip
# Positions of the inputs that are read only in part.
_READ_IN_PART = {
    **dict.fromkeys(
        (
            *(
                "Gather",
                "GatherElements",
                "GatherND",
                "Slice",
                "Compress",
                "CenterCropPad",
                "ArrayFeatureExtractor",
            ),
            *("TorchEmbedding", "GatherBlockQuantized", "SequenceAt"),
        ),
        (0,),
    ),
    "EmbedLayerNormalization": (2, 3, 4),
}


def is_alias(call: Call) -> bool:
    """Whether the first output is the first input under another name (or shape)."""
    if call.operator != "Dropout":
        return call.operator in ALIASES
    training = call.inputs[2] if call.has(2) else None
    return training is None or training.values == (0,)


def read_bytes(call: Call) -> int:
    if call.operator == "Constant" or call.operator in ONLY_SHAPES or is_alias(call):
        return 0
    parts = _READ_IN_PART.get(call.operator, ())
    total = 0
    for place, operand in enumerate(call.inputs):
        if operand is None:
            continue
        if place in parts:
            taken = call.output().size_bytes()
            total += taken if operand.shape is None else min(operand.size_bytes(), taken)
        else:
            total += operand.size_bytes()
    return total


def written_bytes(call: Call) -> int:
    if call.operator == "Constant" or is_alias(call):
        return 0
    return sum(operand.size_bytes() for operand in call.outputs if operand is not None)
