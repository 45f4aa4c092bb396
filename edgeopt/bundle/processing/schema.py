"""The steps that a deployment profile or a user's file declares, strictly: an unknown key is an error."""

from typing import Annotated

import msgspec

from edgeopt.profiles import schema
from edgeopt.profiles.schema import Data

FOLDER = "processing"
"""Within a bundle."""


class Pictures(Data, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conversion of pictures into an input, in the terms of [data] in a target profile."""

    def __post_init__(self) -> None:
        for name, known in (
            (self.colour_order, schema.COLOUR_ORDERS),
            (self.place, schema.PICTURE_PLACES),
            (self.filter, schema.PICTURE_FILTERS),
            (self.layout, schema.PICTURE_LAYOUTS),
            (self.dtype, schema.PICTURE_TYPES),
        ):
            if name not in known:
                raise ValueError(f"'{name}' is not one of {', '.join(known)}")


class _Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="do"):
    on: str
    """The tensor that it takes: an output of the model, or what an earlier step gave."""
    to: str = ""
    """Name of the result; empty: the result replaces the tensor that it was made from."""

    @property
    def gives(self) -> str:
        return self.to or self.on


class Softmax(_Step, frozen=True, tag="softmax"):
    """Exponentials that sum to 1 along an axis."""

    axis: int = -1


class Sigmoid(_Step, frozen=True, tag="sigmoid"):
    """1 / (1 + exp(-x))."""


class Argmax(_Step, frozen=True, tag="argmax"):
    """The place of the largest value along an axis, which goes away; of equal ones the first."""

    axis: int = -1


class TopK(_Step, frozen=True, tag="top-k", kw_only=True):
    """The `k` largest values along an axis, the largest first; of equal ones the first."""

    k: Annotated[int, msgspec.Meta(ge=1)]
    axis: int = -1
    places: str = ""
    """Name of the tensor with the values' places; empty: the result's name with `_places`."""

    @property
    def gives_places(self) -> str:
        return self.places or f"{self.gives}_places"


class Threshold(_Step, frozen=True, tag="threshold"):
    """1 where a value is more than `above`, else 0, as bytes."""

    above: float = 0.0


class Scale(_Step, frozen=True, tag="scale"):
    """x · factor + offset."""

    factor: float = 1.0
    offset: float = 0.0


class Dequantize(_Step, frozen=True, tag="dequantize"):
    """(x - zero_point) · scale."""

    scale: float = 1.0
    zero_point: int = 0


class Rename(_Step, frozen=True, tag="rename"):
    """The same under the name `to`."""


Step = Softmax | Sigmoid | Argmax | TopK | Threshold | Scale | Dequantize | Rename
KINDS: tuple[type[Step], ...] = (Softmax, Sigmoid, Argmax, TopK, Threshold, Scale, Dequantize, Rename)
