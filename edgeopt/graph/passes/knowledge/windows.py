"""A convolution along one axis, of a picture that is resized before, as a convolution of the picture itself.

Output o reads the resized pixels s o + d t - p (s stride, d dilation, p padding, t a place in the kernel), each of
which is a sum of the source's pixels j. Where the weight of j in it depends on t and j - S o alone, it is
k(t, j - S o), and the convolution of the source has the stride S and the kernel k, summed over t with the weights
of before. Pixels outside the source are zero and may have any weight. This is looked at for every output, so that
borders are no guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant
from edgeopt.graph.passes.knowledge.padding import conv_pads, spatial_pads

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

    from edgeopt.graph.passes.knowledge.resizing import Taps

_ALIKE = 1e-8  # places are rounded to nine digits


@dataclass(frozen=True, slots=True)
class Window:
    """What a convolution reads along one axis."""

    kernel: int
    stride: int
    dilation: int
    before: int
    behind: int
    """How many zeros are put before and behind."""

    def outputs(self, size: int) -> int:
        return (size + self.before + self.behind - self.dilation * (self.kernel - 1) - 1) // self.stride + 1


@dataclass(frozen=True, slots=True)
class Folded:
    """The window over the source, and `spread`: (places in the kernel of before, places in that of now)."""

    window: Window
    spread: "NDArray[Any]"


def windows_of(conv: "ir.Node", pad: "ir.Node | None", sizes: Sequence[int]) -> tuple[Window, ...] | str:
    """What a convolution with constant weights reads of a picture, through a Pad where there is one.

    It does not matter what a Pad fills in: where weights sum up to one, a surrounding of one number stays that.
    """
    weights, attributes, rank = constant(conv.inputs[1]), conv.attributes, len(sizes)
    if weights is None or weights.ndim != rank + 2:
        return "the convolution reads pictures of another rank"
    amounts = conv_pads(conv, sizes)
    if pad is not None:
        if pad.attributes.get_string("mode", "constant") != "constant":
            return f"the Pad behind it repeats pixels ({pad.attributes.get_string('mode')})"
        amounts = "the Pad and the convolution behind it both pad" if any(amounts) else spatial_pads(pad)
    if isinstance(amounts, str):
        return amounts
    strides, dilations = (attributes.get_ints(name, [1] * rank) for name in ("strides", "dilations"))
    rows = zip(weights.shape[2:], strides, dilations, amounts[:rank], amounts[rank:], strict=True)
    return tuple(Window(*row) for row in rows)


def window_over(taps: "Taps", window: Window) -> Folded | str:
    """The window that reads the source as this one reads what is resized, or why there is none."""
    stride = window.stride * taps.step
    if stride.denominator != 1:
        return f"its strides are no multiples of {taps.step.denominator}: outputs side by side need other kernels"
    starts = int(stride) * np.arange(window.outputs(taps.resized))
    if not starts.size:
        return "the convolution has no output"
    kernels: list[dict[int, float]] = []
    for place in range(window.kernel):
        kernel = _kernel(taps, window, place, starts)
        if isinstance(kernel, str):
            return kernel
        kernels.append(kernel)
    return _laid_out(kernels, taps.source, int(stride), int(starts[-1]))


def _kernel(taps: "Taps", window: Window, place: int, starts: "NDArray[Any]") -> dict[int, float] | str:
    """By a pixel's distance from where an output starts: its weight in what this place of the kernel reads."""
    read = window.stride * np.arange(len(starts)) + window.dilation * place - window.before
    real = (read >= 0) & (read < taps.resized)
    if not real.any():
        return {}
    distances = taps.places[read[real]] - starts[real, None]
    weights = taps.weights[read[real]]
    found: dict[int, float] = {}
    for distance in np.unique(distances[weights != 0]):
        weight = np.where(distances == distance, weights, 0).sum(axis=1)
        inside = (starts + distance >= 0) & (starts + distance < taps.source)
        if np.ptp(weight[inside[real]]) > _ALIKE:
            return "not every output weights its surroundings alike"
        if inside[~real].any():
            return "zeros that the convolution pads would be mixed with pixels"
        found[int(distance)] = float(weight[inside[real]][0])
    return found


def _laid_out(kernels: list[dict[int, float]], source: int, stride: int, start: int) -> Folded:
    """In as few places as can be: pixels in equal steps make a dilated kernel. The last output is at `start`."""
    used = sorted({distance for kernel in kernels for distance in kernel}) or [0]
    dilation = int(np.gcd.reduce(np.diff(used))) if len(used) > 1 else max(1, used[0])
    first, last = used[0], used[-1]
    while first > 0:  # a convolution reads its first pixel
        first -= dilation
    while source - 1 - start - last >= stride:  # or there would be one output more
        last += dilation
    spread = np.zeros((len(kernels), (last - first) // dilation + 1))
    for place, kernel in enumerate(kernels):
        spread[place, [(distance - first) // dilation for distance in kernel]] = list(kernel.values())
    behind = max(0, start + last - source + 1)
    return Folded(Window(spread.shape[1], stride, dilation, -first, behind), spread)
