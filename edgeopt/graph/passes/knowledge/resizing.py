"""Which pixels a Resize sums, and how much of each, where its factors are whole numbers.

Along one axis a resized pixel u lies at p in the source: u / s (asymmetric), (u + 1/2) / s - 1/2 (half_pixel and
its kin), or so that the outermost pixels meet (align_corners). `nearest` takes the pixel that p is rounded to,
`linear` the two around p, each by how near it is; places beyond the border stand for the pixel at the border.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant, is_op

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

_PLACED_SINCE = 11  # the opset from which on a Resize says where its samples lie
_WHOLE = 2.0**-23  # a third in float32 is a fourth of that off
_SURE = 1e-3
_BY_RATIO = ("align_corners", "half_pixel_symmetric")  # they go by both sizes, one of which may be rounded
_ROUNDINGS: "Mapping[str, tuple[float, Callable[[Any], Any]]]" = {
    "floor": (0.0, np.floor),
    "ceil": (0.0, np.ceil),
    "round_prefer_floor": (0.5, lambda p: np.ceil(p - 0.5)),
    "round_prefer_ceil": (0.5, lambda p: np.floor(p + 0.5)),
}
"""By `nearest_mode`: where between two pixels the choice changes, and which pixel it is."""


@dataclass(frozen=True, slots=True)
class Taps:
    """Along one axis: the source's pixels that each resized one is a sum of, and their weights."""

    source: int
    step: Fraction
    """How many of the source's pixels lie between two resized ones."""
    places: "NDArray[Any]"
    weights: "NDArray[Any]"
    """Both (resized pixels, taps)."""

    @property
    def resized(self) -> int:
        return len(self.places)


@dataclass(frozen=True, slots=True)
class _Side:
    """One axis: how many pixels there are, how many come out, and by which factor."""

    source: int
    resized: int
    scale: float


def taps_of(resize: "ir.Node", opset: int) -> "tuple[Taps, ...] | str":
    """The taps of each side of the picture, or why they cannot be told, as a sentence."""
    if is_op(resize, "Resize") and opset < _PLACED_SINCE:
        return f"a Resize of opset {opset} does not say where its samples lie"
    sides = _sides(resize)
    if isinstance(sides, str):
        return sides
    found = []
    for side in sides:
        taps = _taps(resize, side)
        if isinstance(taps, str):
            return taps
        found.append(taps)
    return tuple(found)


def described(resize: "ir.Node") -> str:
    """How a Resize places and weights its samples, in its own words."""
    return f"{_mode(resize)}, {_coordinates(resize)}"


def _sides(resize: "ir.Node") -> "list[_Side] | str":
    source = resize.inputs[0]
    if source is None or source.shape is None or any(not isinstance(size, int) for size in source.shape[2:]):
        return "how large the picture is, is not known before the model runs (--shape fixes that)"
    shape = list(source.shape)
    axes = [axis % len(shape) for axis in resize.attributes.get_ints("axes", range(len(shape)))]
    places = {"Upsample": (1, 2), "Resize": (2, 3)}[resize.op_type]
    scales, sizes = (_given(resize, place, len(axes)) for place in places)
    if scales is None and sizes is None:
        return "its sizes are not known before the model runs"
    if sizes is not None and resize.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "it keeps the ratio of the sides, whatever sizes it is given"
    sides = [_Side(int(size), int(size), 1.0) for size in shape[2:]]
    for place, axis in enumerate(axes):
        have = shape[axis]
        if axis < 2:  # how many pictures there are may be open
            if have != sizes[place] if sizes is not None else scales[place] != 1:  # type: ignore[index]
                return "it may resize more than the sides of pictures"
        elif sizes is not None:
            sides[axis - 2] = _Side(have, int(sizes[place]), int(sizes[place]) / have)
        elif scales is not None:
            sides[axis - 2] = _Side(have, int(np.floor(have * float(scales[place]))), float(scales[place]))
    return sides


def _given(resize: "ir.Node", place: int, count: int) -> "NDArray[Any] | None":
    array = constant(resize.inputs[place]) if place < len(resize.inputs) else None
    return array if array is not None and array.size == count else None


def _taps(resize: "ir.Node", side: _Side) -> "Taps | str":
    step = _whole(1 / side.scale) or (1 / whole if (whole := _whole(side.scale)) else None)
    if step is None or not side.resized:
        return f"it resizes by {side.scale:.4g}, and neither that nor its inverse is a whole number"
    where = np.arange(side.resized)
    if side.source == side.resized and step == 1:
        return Taps(side.source, step, where[:, None], np.ones((side.resized, 1)))
    if resize.attributes.get_int("antialias", 0) and step > 1 and _mode(resize) != "nearest":
        return "it averages over wider surroundings (antialias), fewer of which there are at the border"
    if _coordinates(resize) in _BY_RATIO and side.source != step * side.resized:
        return f"runtimes place pixels differently where {side.resized} stand for {side.source}"
    places = _places(_coordinates(resize), side, float(step))
    if places is None:
        return "it cuts out a part of the picture (tf_crop_and_resize)"
    below = np.floor(places)
    if _mode(resize) == "nearest":
        below = _rounded(resize, places, step)
        if below is None:
            return "which pixel is nearest depends on how a runtime rounds"
        chosen, weights = below[:, None], np.ones((side.resized, 1))
    elif _mode(resize) == "cubic" and (places != below).any():
        return "it looks two pixels beyond (cubic), where at the border there are none"
    else:
        chosen, weights = below[:, None] + [0, 1], np.stack([1 - (places - below), places - below], axis=1)
    return Taps(side.source, step, np.clip(chosen, 0, side.source - 1).astype(np.int64), weights)


def _places(coordinates: str, side: _Side, step: float) -> "NDArray[Any] | None":
    """Where the resized pixels lie in the source; None where that depends on more than the sizes."""
    where = np.arange(side.resized, dtype=np.float64)
    if coordinates == "asymmetric":
        places = where * step
    elif coordinates == "tf_half_pixel_for_nn":
        places = (where + 0.5) * step
    elif coordinates == "align_corners":
        places = where * (side.source - 1) / max(1, side.resized - 1)
    elif coordinates == "pytorch_half_pixel" and side.resized == 1:
        places = where
    elif coordinates in {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"}:
        places = (where + 0.5) * step - 0.5
    else:
        return None
    return np.round(places, 9)


def _rounded(resize: "ir.Node", places: "NDArray[Any]", step: Fraction) -> "NDArray[Any] | None":
    """The nearest pixels; None where float32 may put a place on either side of where the choice changes."""
    rounding = resize.attributes.get_string("nearest_mode", "round_prefer_floor")
    border, rounded = _ROUNDINGS["floor" if is_op(resize, "Upsample") else rounding]
    exact = step.numerator & (step.numerator - 1) == 0
    off = np.abs((places - border + 0.5) % 1 - 0.5)
    return None if not exact and (off < _SURE).any() else rounded(places)


def _whole(number: float) -> Fraction | None:
    near = round(number)
    return Fraction(near) if near >= 1 and abs(number - near) < _WHOLE * near else None


def _mode(resize: "ir.Node") -> str:
    return str(resize.attributes.get_string("mode", "nearest"))


def _coordinates(resize: "ir.Node") -> str:
    """An Upsample places its samples as one of them does."""
    default = "half_pixel" if is_op(resize, "Resize") else "asymmetric"
    return str(resize.attributes.get_string("coordinate_transformation_mode", default))
