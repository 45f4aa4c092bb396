"""Attention."""

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Array, Arrays, Formula, Inputs, integer, real
from edgeopt.commands.ops.references.normalization import softmax


def _attention(inputs: Inputs, attributes: Attributes) -> Arrays:
    flat = inputs[0].ndim == 3
    own_heads, heads = integer(attributes, "q_num_heads", 0), integer(attributes, "kv_num_heads", 0)
    q = _by_head(inputs[0], own_heads) if flat else inputs[0]
    k, v = (_by_head(inputs[n], heads) if flat else inputs[n] for n in (1, 2))
    repeats = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeats, axis=1), np.repeat(v, repeats, axis=1)
    scores = q @ k.swapaxes(-1, -2) * real(attributes, "scale", q.shape[-1] ** -0.5)
    mask = inputs.get(3)
    if mask is not None:
        scores = scores + mask
    if integer(attributes, "is_causal", 0):
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    found = softmax(scores, -1) @ v
    if flat:
        found = found.swapaxes(1, 2).reshape(*inputs[0].shape[:2], -1)
    return [found]


def _by_head(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


FORMULAS: dict[str, Formula] = {"Attention": _attention}
