"""Facts about a model that the search needs before it starts."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import check_samples, from_feeds, save_samples
from edgeopt.errors import ModelError
from edgeopt.graph.analysis.layers import layer_counts
from edgeopt.graph.import_proof import import_proof_in
from edgeopt.graph.model import Model
from edgeopt.pipeline.builders.messages import Inspect, Inspected

if TYPE_CHECKING:
    import onnx_ir as ir


def describe(model: Model) -> Inspected:
    """Returns inputs, outputs, size and operators of a model; weights listed as inputs count as weights."""
    graph = model.ir.graph
    inputs = tuple(_tensor(v) for v in graph.inputs if v.name not in graph.initializers)
    if not inputs:
        raise ModelError(
            "The model has no inputs: its outputs are constant.",
            "There is nothing to optimize here.",
        )
    operators = Counter(node.op_type for node in graph.all_nodes())
    size = model.path.stat().st_size + sum(p.stat().st_size for p in model.external)
    return Inspected(
        inputs,
        tuple(_tensor(v) for v in graph.outputs),
        model.digest,
        sum(operators.values()),
        dict(operators),
        size,
        tuple(p.relative_to(model.path.parent).as_posix() for p in model.external),
        layer_counts(model.ir),
        import_proof_in(model.ir.metadata_props),
    )


def _tensor(value: "ir.Value") -> TensorInfo:
    import onnx_ir as ir

    name = value.name or ""
    if not isinstance(value.type, ir.TensorType):
        kind = type(value.type).__name__ if value.type is not None else "unknown"
        raise ModelError(
            f"'{name}' is not a plain tensor ({kind}); edgeopt optimizes only models with plain tensors.",
            "Export the model with tensors as inputs and outputs.",
        )
    dtype = value.type.dtype
    if dtype is ir.DataType.UNDEFINED or dtype.numpy().isbuiltin != 1:
        raise ModelError(
            f"'{name}' is of type {dtype.name.lower()}, which numpy does not support, so outputs cannot "
            "be compared.",
            "Export the model with float32 inputs and outputs; it may use any type internally.",
        )
    return TensorInfo(name, "str" if dtype is ir.DataType.STRING else dtype.numpy().name, _dimensions(value))


def _dimensions(value: "ir.Value") -> tuple[int | str | None, ...]:
    if value.shape is not None:
        return tuple(d if isinstance(d, int) else d.value for d in value.shape)
    if value.is_graph_output():
        return ()  # the runtimes find out; nothing in the search depends on it
    raise ModelError(
        f"The input '{value.name}' has no number of dimensions in the model.",
        "Export the model again with input shapes.",
    )


def inspect_model(request: Inspect) -> Inspected:
    from edgeopt.data.regimes import mixed
    from edgeopt.graph.model import load
    from edgeopt.graph.randomness import ALLOW_EQUAL, check_not_random

    model = load(Path(request.model_path))
    if not request.allow_random:
        check_not_random(model.ir, ALLOW_EQUAL)
    facts = describe(model)
    inputs = tuple(_narrowed(info, request.narrowed) for info in facts.inputs)
    feeds = mixed(inputs, model.ir, request.sample_count)
    save_samples(check_samples(from_feeds(feeds), inputs), Path(request.samples_path))
    return facts


def _narrowed(info: TensorInfo, narrowed: tuple[TensorInfo, ...]) -> TensorInfo:
    """Returns the tensor with its sizes fixed as in `narrowed`, and its own axis names, which say more."""
    other = next((n for n in narrowed if n.name == info.name and len(n.shape) == len(info.shape)), info)
    shape = tuple(fixed if isinstance(fixed, int) else d for d, fixed in zip(info.shape, other.shape, strict=True))
    return msgspec.structs.replace(info, shape=shape)
