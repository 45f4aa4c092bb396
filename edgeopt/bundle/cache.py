"""Recognition of the cache of a decoder: the keys and values of earlier tokens, by the names of Hugging Face."""

import re
from collections.abc import Mapping, Sequence

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import Cache
from edgeopt.errors import UsageError
from edgeopt.graph.import_proof import InputLimits

_PAST = re.compile(r"past_key_values\.(\d+)\.((?:(decoder|encoder)\.)?(?:key|value))")
_TOKENS = ("input_ids", "decoder_input_ids")
_MASKS = ("attention_mask", "decoder_attention_mask")
_POSITIONS = ("position_ids",)
_LOGITS = ("logits",)
_INTEGERS = ("int32", "int64")


def present_name(past: str) -> str | None:
    """Returns the name of the output that continues this input of a decoder; None for any other input."""
    found = _PAST.fullmatch(past)
    return f"present.{found[1]}.{found[2]}" if found else None


def is_cross_attention(past: str) -> bool:
    """Whether the input holds keys or values of an encoder, which later steps do not change."""
    found = _PAST.fullmatch(past)
    return found is not None and found[3] == "encoder"


def sequence_axis(past: TensorInfo, present: TensorInfo) -> int | None:
    """Returns the axis that grows with each token; None if it is fixed or cannot be told from other open axes."""
    axes = [axis for axis, size in enumerate(past.shape) if axis and not isinstance(size, int)]
    if len(axes) > 1 and len(past.shape) == len(present.shape):
        axes = [axis for axis in axes if past.shape[axis] != present.shape[axis]]
    return axes[0] if len(axes) == 1 else None


def found_cache(
    inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], limits: InputLimits | None = None
) -> Cache:
    """Returns the cache of a decoder by the names of its ports; raises UsageError that says what is missing."""
    produced = {info.name: info for info in outputs}
    pairs = {info.name: name for info in inputs if (name := present_name(info.name)) in produced}
    if not pairs:
        raise _no_cache("no input 'past_key_values.N.key' has an output 'present.N.key'")
    own = [info for info in inputs if info.name in pairs and not is_cross_attention(info.name)]
    axes = {sequence_axis(info, produced[pairs[info.name]]) for info in own}
    axis = axes.pop() if len(axes) == 1 else None
    if axis is None:
        raise _no_cache("the axis of the cache that grows with the tokens is fixed or ambiguous")
    tokens = _named(inputs, _TOKENS, _INTEGERS)
    logits = _named(outputs, _LOGITS)
    if not tokens:
        raise _no_cache("it has no input 'input_ids' of integers")
    if not logits:
        raise _no_cache("it has no output 'logits'")
    mask = _named(inputs, _MASKS, (*_INTEGERS, "bool"))
    limit = (limits or {}).get(mask or tokens, {}).get("1")
    return Cache(
        pairs=pairs,
        axis=axis,
        tokens=tokens,
        logits=logits,
        mask=mask,
        positions=_named(inputs, _POSITIONS, _INTEGERS),
        max_context_tokens=limit.maximum if limit is not None else None,
        given=[info.name for info in inputs if info.name not in pairs and is_cross_attention(info.name)],
    )


def cache_axes(
    pairs: Mapping[str, str], inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]
) -> dict[str, int]:
    """Returns the growing axis of each state that has the name of a decoder's."""
    produced = {info.name: info for info in outputs}
    found = {
        info.name: sequence_axis(info, produced[pairs[info.name]])
        for info in inputs
        if info.name in pairs and present_name(info.name)
    }
    return {name: axis for name, axis in found.items() if axis is not None}


def _named(ports: Sequence[TensorInfo], names: Sequence[str], dtypes: Sequence[str] = ()) -> str:
    fitting = (info.name for info in ports if info.name in names and (not dtypes or info.dtype in dtypes))
    return next(fitting, "")


def _no_cache(reason: str) -> UsageError:
    return UsageError(
        f"The model has no cache that can be used to generate: {reason}.",
        "Export it with its past keys and values as inputs and outputs, or declare the ports in the [cache] of a "
        "bundle's deployment.toml.",
    )
