"""Samples that show whether a model applies its mask: other lengths, other padding, gaps, and mixed rows.

What skips padding is right on such a model only; data of one kind could hide that it is not.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.masks import STEP, is_mask

if TYPE_CHECKING:
    import onnx_ir as ir

Sample = dict[str, Any]


def padded_cases(model_ir: "ir.Model", sample: Sample) -> list[Sample]:
    """Made from one sample; none where the model has no mask."""
    masks = [name for name, array in sample.items() if is_mask(name, np.ndim(array))]
    if len(masks) != 1 or 0 in np.shape(sample[masks[0]]):
        return []
    cases = [case for mask in _masks(sample[masks[0]]) for case in _filled({**sample, masks[0]: mask}, masks[0])]
    if _takes_rows(model_ir):
        cases += [_beside(cases[0], other, sample) for other in cases[1:4]]
    return cases


def _masks(given: "np.ndarray[Any, Any]") -> "Iterator[np.ndarray[Any, Any]]":
    """One token, around a step, half, nearly all, all; then with a gap, and with nothing at the start."""
    length = given.shape[1]
    place = np.arange(length)
    for kept in dict.fromkeys(
        min(max(n, 1), length) for n in (1, STEP, STEP + 1, length // 2, length - 1, length)
    ):
        yield np.broadcast_to(place < kept, given.shape).astype(given.dtype)
    half = place < max(1, length // 2)
    yield np.broadcast_to(half & ((place % 3 != 1) | (place == 0)), given.shape).astype(given.dtype)
    yield np.broadcast_to(half & ((place >= length // 4) | (length < STEP)), given.shape).astype(given.dtype)


def _filled(sample: Sample, mask: str) -> Iterator[Sample]:
    """As it is, and with other values in all that the mask leaves out."""
    yield sample
    left_out = ~sample[mask].astype(bool)
    random = np.random.default_rng(0)
    other = {
        name: np.where(left_out, random.permuted(array, axis=1), array).astype(array.dtype)
        for name, array in sample.items()
        if name != mask and np.shape(array) == left_out.shape
    }
    if left_out.any() and other:
        yield {**sample, **other}


def _takes_rows(model_ir: "ir.Model") -> bool:
    """Whether every input has an open first dimension."""
    shapes = [value.shape for value in model_ir.graph.inputs if not value.is_initializer()]
    return all(shape is not None and len(shape) > 0 and not isinstance(shape[0], int) for shape in shapes)


def _beside(first: Sample, second: Sample, empty: Sample) -> Sample:
    """Three rows: two lengths, and one row that is all padding."""
    names = [name for name in first if is_mask(name, np.ndim(first[name]))]
    rows = [first, second, {**empty, **{name: np.zeros_like(empty[name]) for name in names}}]
    return {name: np.concatenate([row[name] for row in rows]) for name in first}
