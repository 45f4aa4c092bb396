"""The shapes that the tensors of a model really have, seen in one run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.onnxruntime.opening import register_custom_ops, runtime_errors, session_options_for
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.onnxruntime.provider import CPU
from edgeopt.backends.onnxruntime.times import Event, node_events, node_name, profile
from edgeopt.errors import MissingExtraError, ModelError, said_by

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

Proto = Any
"""protobuf classes carry no types; these are onnx's ModelProto, GraphProto and NodeProto."""
Shape = tuple[int, ...]
Ports = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of what a node reads and of what it gives."""

_BESIDE = "session.model_external_initializers_file_folder_path"


def real_shapes(path: Path, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, Shape]:
    """By the name of the tensor, those of subgraphs too: the branch of an If that was taken, a loop's last turn.

    Runs the model on the processor, without optimization. A name that stands for tensors of several nodes, in
    branches that do not know of each other, is left out where their shapes differ; so are sequences.
    """
    model = _parsed(path)
    ports = dict(_numbered(model.graph, []))
    events, arrays = _run(model, path, feeds, custom_ops)
    shapes = _joined(events, ports)
    # What goes from one of the model's own functions to the next is in no event: their bodies run in their place.
    lost = {name for node in model.graph.node for name in node.output if name} - shapes.keys() - arrays.keys()
    if lost:
        for name in sorted(lost):
            model.graph.output.add().name = name
        # Some things can be no output of a model; then the others are known nevertheless.
        with suppress(ModelError):
            arrays |= _run(model, path, feeds, custom_ops)[1]
    return shapes | {name: tuple(a.shape) for name, a in (*feeds.items(), *arrays.items()) if hasattr(a, "shape")}


def _parsed(path: Path) -> Proto:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("optimize", "Seeing the real shapes of a model") from error
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

    try:
        return onnx.load(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        raise ModelError(
            f"'{path.name}' cannot be read as an ONNX model: {said_by(error)}",
            "Check the path, or export it again.",
        ) from error


def _numbered(graph: Proto, numbers: list[None]) -> Iterator[tuple[str, Ports]]:
    """Gives all nodes, those of subgraphs too, names of their own; with what each node reads and gives."""
    for node in graph.node:
        node.name = f"edgeopt_{len(numbers)}"
        numbers.append(None)
        yield node.name, (tuple(node.input), tuple(node.output))
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                # What goes into a body is given by something, too.
                yield f"{node.name}/{len(numbers)}", ((), tuple(value.name for value in inner.input))
                yield from _numbered(inner, numbers)


def _run(
    model: Proto, path: Path, feeds: Feeds, custom_ops: tuple[str, ...]
) -> tuple[list[Event], dict[str, Array]]:
    made = session_options_for(OrtOptions(graph_level="none"), "ONNX Runtime")
    made.add_session_config_entry(_BESIDE, str(path.absolute().parent))
    register_custom_ops(custom_ops, made)

    def opened(options: "SessionOptions") -> "InferenceSession":
        import onnxruntime

        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU], enable_fallback=0)

    try:
        return profile(made, opened, feeds, 1)
    except runtime_errors() as error:
        raise ModelError(
            f"ONNX Runtime cannot run '{path.name}': {said_by(error)}",
            "Check the data against the inputs of the model: edgeopt analyze MODEL",
        ) from error


def _joined(events: list[Event], ports: dict[str, Ports]) -> dict[str, Shape]:
    found: dict[str, dict[str, Shape]] = {}
    for event in node_events(events):
        name = node_name(event)
        for side, key in zip(ports.get(name, ((), ())), ("input_type_shape", "output_type_shape"), strict=True):
            # What a node leaves out and what is no tensor is not listed, and nothing says which that was.
            listed = event["args"].get(key, ())
            values = [value for value in side if value]
            if len(listed) == len(values):
                for value, kind in zip(values, listed, strict=True):
                    found.setdefault(value, {})[name] = tuple(next(iter(kind.values())))
    made_by: dict[str, set[str]] = {}
    for name, (_, given) in ports.items():
        for value in given:
            made_by.setdefault(value, set()).add(name)
    return {value: shape for value, by in found.items() for shape in _agreed(value, by, made_by)}


def _agreed(value: str, by: dict[str, Shape], made_by: dict[str, set[str]]) -> Iterator[Shape]:
    """The shape; nothing where several nodes give a tensor of this name, and not all of one shape."""
    if len(made_by.get(value, ())) < 2 or len(set(by.values())) == 1:
        yield list(by.values())[-1]
