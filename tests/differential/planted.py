"""Bugs planted into passes, each of a kind that was made somewhere before: random graphs must find them all."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from edgeopt.graph.passes.algebra import constants, operator_forms
from edgeopt.graph.passes.base import is_op
from edgeopt.graph.passes.cleaning import control_flow, identities, redundant
from edgeopt.graph.passes.fusion import activations, normalizations, pooling
from edgeopt.graph.passes.knowledge import agnostic, linear
from edgeopt.graph.passes.layout import transposes

Patch = pytest.MonkeyPatch


class Bug(NamedTuple):
    name: str
    plant: Callable[[Patch], None]
    needs: tuple[str, ...] = ()
    """Operators without which a graph cannot show it: rare ones, so that only graphs with them are run."""


def _no_epsilon(patch: Patch) -> None:
    for module in (normalizations, normalizations):
        found = module.normalized
        patch.setattr(module, "normalized", lambda node, found=found: _without_epsilon(found(node)))


def _without_epsilon(normal):
    return None if normal is None else replace(normal, epsilon=0.0)


def _next_axis(patch: Patch) -> None:
    found = activations._reduction

    def reduction(node, of):
        axis = found(node, of)
        return None if axis is None else max(axis - 1, -len(of.shape or (1,)))

    patch.setattr(activations, "_reduction", reduction)


def _other_broadcast(patch: Patch) -> None:
    found = constants.by_channel

    def by_any(array, axis, rank, channels):
        right = found(array, axis, rank, channels)
        return array.reshape(-1).astype(np.float64) if right is None and array.size == channels else right

    patch.setattr(constants, "by_channel", by_any)


def _limits_swapped(patch: Patch) -> None:
    take = operator_forms.take_place

    def swapped(graph, node, new):
        if is_op(new, "Clip"):
            low, high = new.inputs[1:3]
            new.replace_input_with(1, high)
            new.replace_input_with(2, low)
        take(graph, node, new)

    patch.setattr(operator_forms, "take_place", swapped)


def _transposed_twice(patch: Patch) -> None:
    patch.setattr(transposes, "_inverse", lambda order: order)


def _other_default(patch: Patch) -> None:
    for kind in ("Softmax", "LogSoftmax", "Concat", "Split", "ArgMax", "ArgMin"):
        patch.setitem(agnostic.WITH_AXIS, kind, 1)


def _pads_mirrored(patch: Patch) -> None:
    found = pooling._spatial_pads

    def mirrored(pad):
        pads = found(pad)
        return pads if isinstance(pads, str) else [*pads[len(pads) // 2 :], *pads[: len(pads) // 2]]

    patch.setattr(pooling, "_spatial_pads", mirrored)


def _no_bias(patch: Patch) -> None:
    patch.setattr(linear, "_bias_by_channel", lambda _node, channels: np.zeros(channels))


def _other_axis(patch: Patch) -> None:
    spread = linear._spread_behind

    def turned(node, weights, factor):
        fits = is_op(node, "Conv") and weights.shape[1] == len(factor)
        return factor.reshape(1, -1, *[1] * (weights.ndim - 2)) if fits else spread(node, weights, factor)

    patch.setattr(linear, "_spread_behind", turned)


def _fewer_bits(patch: Patch) -> None:
    patch.setitem(identities.HOLDS, "FLOAT", ("DOUBLE", "FLOAT16", "INT64", "INT32"))


def _other_branch(patch: Patch) -> None:
    found = control_flow.constant

    def inverted(value):
        array = found(value)
        return ~array if array is not None and array.dtype == np.bool_ else array

    patch.setattr(control_flow, "constant", inverted)


def _nearly_equal(patch: Patch) -> None:
    def digest(weight, _digests):
        return np.round(weight.const_value.numpy().astype(np.float64), 4).tobytes()

    patch.setattr(redundant, "_sketch", lambda tensor: (tensor.dtype, tuple(tensor.shape), b""))
    patch.setattr(redundant, "_digest", digest)


def _any_order(patch: Patch) -> None:
    def joined(node):
        first = node.inputs[0].producer()
        same = first is not None and is_op(first, "Split") and set(first.outputs) == set(node.inputs)
        return first.inputs[0] if same else None

    patch.setitem(identities.PASSES_ON, "Concat", joined)


def _no_attributes(patch: Patch) -> None:
    key = redundant._key

    def shorter(node):
        whole = key(node)
        return whole if whole is None else (*whole[:2], *whole[3:])

    patch.setattr(redundant, "_key", shorter)


BUGS = (
    Bug("a transpose is undone by doing it again", _transposed_twice),
    Bug("the axis that is not said is taken for another", _other_default, ("Transpose",)),
    Bug("equal nodes may differ in their attributes", _no_attributes),
    Bug("the epsilon of a normalization is dropped", _no_epsilon),
    Bug("the axis of a softmax is off by one", _next_axis),
    Bug("a constant along any axis counts as one along the channels", _other_broadcast),
    Bug("the limits of a Clip are swapped", _limits_swapped),
    Bug("the pads of a pool are mirrored", _pads_mirrored, ("Pad",)),
    Bug("the bias of a layer is dropped", _no_bias),
    Bug("a scale goes along the wrong axis of the weights", _other_axis),
    Bug("a Cast through fewer bits counts as none", _fewer_bits),
    Bug("the other branch of an If is taken", _other_branch),
    Bug("weights are merged that are equal to four digits", _nearly_equal),
    Bug("the pieces of a Split may be joined in any order", _any_order),
)
