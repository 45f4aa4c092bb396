"""Writes a model with the schemes of a plan, and writes it again from what a bundle recorded."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from edgeopt.backends import eight_bits_of
from edgeopt.backends.base import Array
from edgeopt.decoding import thread_safe
from edgeopt.errors import BundleError, ModelError, UsageError
from edgeopt.graph.ledger import Change
from edgeopt.graph.nodes import constant, is_op
from edgeopt.quant.layers import PRODUCTS, keyed, nodes_by_key
from edgeopt.quant.records import FLOAT, Layer, QuantSettings, Range
from edgeopt.quant.schemes import SCHEMES, Scheme, SchemeContext, scheme_named
from edgeopt.quant.schemes.base import Smoothing
from edgeopt.quant.schemes.flow import through

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.quant.schemes.writer import Writer


@dataclass(frozen=True, slots=True)
class Trace:
    """The context that a model was written with, besides the choices."""

    context: SchemeContext


@dataclass(frozen=True, slots=True)
class QuantizedModel:
    model: "ir.Model"
    changes: tuple[Change, ...]
    trace: Trace


def write(
    model: "ir.Model", layers: Sequence[Layer], choices: Mapping[str, str], context: SchemeContext
) -> QuantizedModel:
    """Returns the model with the chosen schemes; the given model is unchanged.

    Raises UsageError for an unknown layer or scheme, or a scheme that does not fit its layer, and ModelError where
    the opset that a scheme needs cannot be reached.
    """
    from onnx_ir.passes import common

    by_scheme = _by_scheme(layers, choices, context)
    named = model.clone()
    for key, node in list(keyed(named.graph)):
        node.name = key  # a named node keeps its key when nodes around it are replaced
    changed = _raised(named, max((scheme.lowest_opset for scheme in by_scheme), default=0))
    changes = [change for scheme, chosen in by_scheme.items() for change in scheme.write(changed, chosen, context)]
    common.RemoveUnusedNodesPass()(changed)
    return QuantizedModel(changed, tuple(changes), Trace(context))


def _by_scheme(
    layers: Sequence[Layer], choices: Mapping[str, str], context: SchemeContext
) -> dict[Scheme, tuple[Layer, ...]]:
    from edgeopt.errors import UsageError

    by_name = {layer.name: layer for layer in layers}
    for name, scheme in choices.items():
        if name not in by_name:
            raise UsageError(f"There is no layer '{name}' in this model.", "`edgeopt quantize` lists all of them.")
        if scheme != FLOAT and (reason := scheme_named(scheme).fits(by_name[name], context)):
            raise UsageError(f"The layer '{name}' cannot be {scheme}: {reason}.", "Leave it float.")
    chosen = {
        scheme: tuple(layer for layer in layers if choices.get(layer.name, FLOAT) == scheme.name)
        for scheme in SCHEMES
    }
    return {scheme: some for scheme, some in chosen.items() if some}


def _raised(model: "ir.Model", opset: int) -> "ir.Model":
    from edgeopt.graph.passes import PassContext
    from edgeopt.graph.passes.cleaning import raise_opset

    if model.opset_imports.get("", opset) >= opset:
        return model
    result = raise_opset.PASS.apply(model, PassContext(target_opset=opset))
    if result.refused:
        raise ModelError(
            f"The model cannot be raised to opset {opset}, which the scheme needs: {result.refused[0].reason}.",
            "Export it with a newer opset, or choose another scheme.",
        )
    return result.model


def tensors_wanted(
    model: "ir.Model", layers: Sequence[Layer], settings: QuantSettings, backend: str = ""
) -> tuple[str, ...]:
    """Returns the tensors whose ranges schemes may need, on most backends or this one, in graph order."""
    found = nodes_by_key(model.graph)
    nodes = [
        found[key] for layer in layers if layer.operator in PRODUCTS and not layer.reason for key in layer.nodes
    ]
    if not nodes:
        return ()
    flow = through(
        nodes,
        _any_range,
        symmetric=settings.symmetric_activations,
        everywhere=eight_bits_of(backend).everywhere,
    )
    order = [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]
    return tuple(str(value.name) for value in order if value in flow.ranges)


def _any_range(value: "ir.Value") -> Range | None:
    """Returns a range for every value that may be float."""
    return Range(0.0, 0.0) if value.dtype is None or value.dtype.name == "FLOAT" else None


SCHEMA = 1
_OPSET = 17
# zlib expands data up to a thousand times: a larger array is not a valid record, but an attack on the memory.
_LARGEST_BYTES = 1 << 30
_HINT = "Restore the bundle or the exported profile from where it came."


class Numbers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A float32 array, compressed."""

    shape: tuple[int, ...]
    packed: bytes


class Smoothed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Smoothing factors of the activations that some layers read; see `edgeopt.quant.preparing`."""

    layers: tuple[str, ...]
    factors: Numbers


class Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Content of `quantization.json`; the scheme of each layer and the settings are in `deployment.toml`."""

    ranges: dict[str, tuple[float, float]] = {}
    """The lowest and the highest value of the range, by tensor."""
    smoothing: dict[str, Smoothed] = {}
    """Smoothing factors, by the name of the divided activations."""
    equalization: dict[str, Numbers] = {}
    """Factors that the results of a node were divided by and the weights behind it multiplied by, by node."""
    biases: dict[str, Numbers] = {}
    """Mean rounding errors that were subtracted from biases, by node; only earlier versions write them."""
    weights: dict[str, Numbers] = {}
    """Weights with rounding chosen on data, by name; only earlier versions write them."""
    schema: int = SCHEMA


def record_of(choices: Mapping[str, str], trace: "Trace", equalization: Mapping[str, Array]) -> Recorded:
    """Returns the record of a written model, without smoothing factors if no scheme smooths."""
    context = trace.context
    schemes = [scheme_named(name) for name in dict.fromkeys(choices.values())]
    smoothed: dict[str, list[str]] = {}
    factors: dict[str, Array] = {}
    if any(scheme.smooths for scheme in schemes):
        for layer, one in context.smoothing.items():
            smoothed.setdefault(one.tensor, []).append(layer)
            factors[one.tensor] = one.factors
    return Recorded(
        ranges={name: (kept.low, kept.high) for name, kept in context.ranges.items()},
        smoothing={name: Smoothed(tuple(layers), _numbers(factors[name])) for name, layers in smoothed.items()},
        equalization={name: _numbers(array) for name, array in equalization.items()},
    )


def encoded(recorded: Recorded) -> bytes:
    """Returns the record as JSON with a line for each tensor."""
    lines = [b"{"]
    parts = {"schema": recorded.schema, **msgspec.to_builtins(recorded)}
    for place, (name, part) in enumerate(parts.items()):
        comma = b"," if place + 1 < len(parts) else b""
        if isinstance(part, dict):
            rows = [
                b"  %s: %s" % (msgspec.json.encode(key), msgspec.json.encode(row)) for key, row in part.items()
            ]
            lines.append(b' "%s": {\n%s\n }%s' % (name.encode(), b",\n".join(rows), comma))
        else:
            lines.append(b' "%s": %s%s' % (name.encode(), msgspec.json.encode(part), comma))
    return b"\n".join([*lines, b"}\n"])


def decoded(content: bytes) -> Recorded:
    """Returns the record; raises a BundleError for invalid content."""
    try:
        found = msgspec.json.decode(content, type=thread_safe(Recorded))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"The record of the quantization cannot be read: {error}.", _HINT) from None
    if found.schema != SCHEMA:
        raise BundleError(
            f"The record of the quantization has schema {found.schema}; this edgeopt reads schema {SCHEMA}.",
            "Use the edgeopt that wrote it.",
        )
    return found


def write_again(
    model: "ir.Model", choices: Mapping[str, str], backend: str, settings: QuantSettings, recorded: Recorded
) -> "QuantizedModel":
    """Returns the model with these schemes again, from the float model that it was written from.

    Raises UsageError for layers and schemes that do not fit this model.
    """
    from edgeopt.quant.layers import find_layers
    from edgeopt.quant.preparing import evened_out

    model = raised(model)
    layers = find_layers(model)
    if recorded.equalization:
        model = evened_out(model, layers, _arrays(recorded.equalization))
    if recorded.biases:
        model = _with_biases(model, _arrays(recorded.biases))
    smoothing = {
        layer: Smoothing(name, _array(one.factors))
        for name, one in recorded.smoothing.items()
        for layer in one.layers
    }
    ranges = {name: Range(low, high) for name, (low, high) in recorded.ranges.items()}
    context = SchemeContext(backend, settings, ranges, _arrays(recorded.weights), smoothing)
    return write(model, layers, choices, context)


def raised(model: "ir.Model") -> "ir.Model":
    """Returns the model in an opset in which all schemes can be simulated."""
    from edgeopt.graph.passes import PassContext
    from edgeopt.graph.passes.cleaning import raise_opset

    if model.opset_imports.get("", _OPSET) >= _OPSET:
        return model
    return raise_opset.PASS.apply(model, PassContext(target_opset=_OPSET)).model


def _with_biases(model: "ir.Model", means: Mapping[str, Array]) -> "ir.Model":
    """Returns the float model without these mean errors in its biases; raises a UsageError for a missing node."""
    from edgeopt.quant.schemes.writer import Writer

    copy = model.clone()
    nodes, writer = nodes_by_key(copy.graph), Writer(copy.graph)
    for key, mean in means.items():
        if key not in nodes:
            raise UsageError(
                f"There is no node '{key}' in this model.", "It is another model, or another edgeopt."
            )
        _correct(writer, nodes[key], mean)
    return copy


def _correct(writer: "Writer", node: "ir.Node", mean: Array) -> None:
    """Changes the bias, or the constant that is added to a matrix product."""
    place = 2
    if is_op(node, "MatMul"):
        use = next(iter(node.outputs[0].uses()))
        node, place = use.node, 1 - use.idx
    bias = node.inputs[place] if len(node.inputs) > place else None
    known = constant(bias)
    shape = mean.shape if known is None or known.size == 1 else known.shape
    flat = (np.zeros(1, np.float32) if known is None else known.astype(np.float32).reshape(-1)) - mean
    node.resize_inputs(max(place + 1, len(node.inputs)))
    node.replace_input_with(place, writer.constant(f"{node.outputs[0].name}_corrected", flat.reshape(shape)))


def _numbers(array: Array) -> Numbers:
    return Numbers(tuple(array.shape), zlib.compress(np.ascontiguousarray(array, "<f4").tobytes(), 6))


def _arrays(numbers: Mapping[str, Numbers]) -> dict[str, Array]:
    return {name: _array(one) for name, one in numbers.items()}


def _array(numbers: Numbers) -> Array:
    size = 4 * int(np.prod(numbers.shape, dtype=np.int64))
    if not 0 <= size <= _LARGEST_BYTES:
        raise BundleError("The record of the quantization holds an array that is too large.", _HINT)
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(numbers.packed, size + 1)
    except zlib.error as error:
        raise BundleError(f"The record of the quantization is damaged: {error}.", _HINT) from None
    if len(content) != size:
        raise BundleError("The record of the quantization is damaged: an array is not as long as it says.", _HINT)
    return np.frombuffer(content, "<f4").reshape(numbers.shape).astype(np.float32)
