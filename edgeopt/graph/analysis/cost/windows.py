"""Pooling, resizing and sampling: how many elements are looked at for one of the output."""

from math import prod

from edgeopt.graph.analysis.cost.call import NOTHING, Arithmetic, Call, Unknown


def pooled(call: Call) -> Arithmetic:
    return Arithmetic(0, call.out() * prod(call.wholes("kernel_shape") or (1,)))


def pooled_by_norm(call: Call) -> Arithmetic:
    """A power and a sum for each, a root for all."""
    return Arithmetic(0, call.out() * (2 * prod(call.wholes("kernel_shape") or (1,)) + 1))


def pooled_whole(call: Call) -> Arithmetic:
    return Arithmetic(0, call.given())


def pooled_whole_by_norm(call: Call) -> Arithmetic:
    return Arithmetic(0, 2 * call.given() + call.out())


def unpooled(call: Call) -> Arithmetic:
    del call
    return NOTHING


def of_regions(call: Call) -> Arithmetic:
    """Each cell takes this number of samples along both sides, and each sample mixes four neighbours."""
    samples = call.whole("sampling_ratio")
    if samples < 1:
        raise Unknown("the number of samples of a region depends on its size, so on the data")
    return Arithmetic(4 * call.out() * samples * samples)


def resized(call: Call) -> Arithmetic:
    """Nearest moves; linear mixes two and cubic four neighbours along each axis that changes its size."""
    mode = call.text("mode", "nearest")
    if mode == "nearest":
        return NOTHING
    before, after = call.shape(0), call.output().known_shape()
    changed = sum(old != new for old, new in zip(before, after, strict=False))
    return Arithmetic(call.out() * (4 if mode == "cubic" else 2) ** changed) if changed else NOTHING


def sampled(call: Call) -> Arithmetic:
    """At places that another tensor gives; those are scaled first, one operation each."""
    mode, places = call.text("mode", "linear"), call.input(1).count()
    axes = max(1, len(call.shape(0)) - 2)
    neighbours = {"nearest": 0, "cubic": 4**axes, "bicubic": 4**axes}.get(mode, 2**axes)
    return Arithmetic(call.out() * neighbours, places)


def cropped(call: Call) -> Arithmetic:
    return NOTHING if call.text("mode", "bilinear") == "nearest" else Arithmetic(4 * call.out())


def affine_grid(call: Call) -> Arithmetic:
    """Each place of the grid times a matrix with a column for the shift."""
    return Arithmetic(call.out() * call.axis(0, -1))


def summed_up(call: Call) -> Arithmetic:
    return Arithmetic(0, call.given())


def of_data(call: Call) -> Arithmetic:
    raise Unknown(
        "the number of compared boxes depends on the data"
        if call.operator == "NonMaxSuppression"
        else "the number of elements in a region depends on the data"
    )


RULES = {
    **dict.fromkeys(("AveragePool", "MaxPool", "NhwcMaxPool", "MaxpoolWithMask", "QLinearAveragePool"), pooled),
    "LpPool": pooled_by_norm,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "QLinearGlobalAveragePool"), pooled_whole),
    "GlobalLpPool": pooled_whole_by_norm,
    "MaxUnpool": unpooled,
    "RoiAlign": of_regions,
    **dict.fromkeys(("Resize", "Upsample"), resized),
    "GridSample": sampled,
    "CropAndResize": cropped,
    "AffineGrid": affine_grid,
    "Col2Im": summed_up,
    **dict.fromkeys(("MaxRoiPool", "NonMaxSuppression"), of_data),
}
