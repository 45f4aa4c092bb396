"""ONNX Runtime's own profile of some runs: the time of each provider, and the shapes of the tensors."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgeopt.backends.base import Array, Feeds, Options
from edgeopt.backends.onnxruntime.opening import (
    check_dimensions,
    open_with,
    register_custom_ops,
    runtime_errors,
    session_options_for,
)
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.onnxruntime.provider import CPU, CUDA, Provider
from edgeopt.backends.options import read_options
from edgeopt.errors import MissingExtraError, ModelError, error_text
from edgeopt.workspace import temporary_folder

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions


Event = dict[str, Any]

_KERNEL = "_kernel_time"


def profile(
    made: "SessionOptions", opened: "Callable[[SessionOptions], InferenceSession]", feeds: "Feeds", runs: int
) -> "tuple[list[Event], dict[str, Array]]":
    """Returns the events of this number of runs, and the results of the last one."""

    with temporary_folder("times") as folder:
        made.enable_profiling = True
        made.profile_file_prefix = str(Path(folder) / "profile")
        session = opened(made)
        try:
            for _ in range(runs):
                results = session.run(None, dict(feeds))
        finally:
            written = session.end_profiling()
        events: list[Event] = json.loads(Path(written).read_bytes())
    names = (output.name for output in session.get_outputs())
    return events, dict(zip(names, results, strict=True))


def run_events(events: list[Event]) -> list[Event]:
    """Returns the events of whole runs, in their order."""
    return sorted((e for e in events if e.get("name") == "model_run"), key=lambda e: float(e["ts"]))


def node_events(events: list[Event]) -> list[Event]:
    """Returns the events of running nodes, one for each time that a node ran, without the waiting around them."""
    return [e for e in events if e.get("cat") == "Node" and e["name"].endswith(_KERNEL) and provider_of(e)]


def node_name(event: Event) -> str:
    """Returns the name of an event's node in the runtime; for unnamed nodes, the operator and a number."""
    return str(event["name"]).removesuffix(_KERNEL)


def provider_of(event: Event) -> str:
    return str(event.get("args", {}).get("provider", ""))


def nested(nodes: list[Event]) -> "Iterator[tuple[Event, Event | None]]":
    """Yields each event with the innermost event around it on its thread, such as a Loop, Scan or If."""
    open_: dict[Any, list[Event]] = {}
    for event in sorted(nodes, key=lambda e: (e["ts"], -e["dur"])):
        stack = open_.setdefault((event.get("pid"), event.get("tid")), [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        yield event, stack[-1] if stack else None
        stack.append(event)


_RUNS = 5
_GRAPHS = ("enable_cuda_graph", "trt_cuda_graph_enable")
LAUNCHING = frozenset({CUDA, "TensorrtExecutionProvider", "DmlExecutionProvider"})
"""Providers whose node times are mostly the time to hand the work to the GPU."""


def provider_times(
    provider: Provider, path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()
) -> dict[str, float]:
    """Returns the milliseconds in the kernels of one run, by provider; a fused part is one kernel.

    Empty if a provider works on a GPU and the runtime does not report its kernels: shares would mislead.
    """
    chosen, made = timed_options(provider, path, options, custom_ops)
    events, _ = profile(made, lambda made: open_with(provider, path, chosen, made), feeds, _RUNS + 1)
    return _by_provider(events)


def timed_options(
    provider: Provider, path: Path, options: Options, custom_ops: tuple[str, ...]
) -> "tuple[OrtOptions, SessionOptions]":
    """Returns the options of a session whose nodes are timed individually."""
    chosen = read_options(provider.options, options, provider.name)
    # A recorded graph is replayed as a whole, without events of its nodes.
    chosen = msgspec.structs.replace(chosen, **{name: False for name in _GRAPHS if hasattr(chosen, name)})
    made = session_options_for(chosen, provider.name)
    check_dimensions(path, chosen, provider.name)
    register_custom_ops(custom_ops, made)
    return chosen, made


def _by_provider(events: list[Event]) -> dict[str, float]:
    """Returns the mean milliseconds by provider, without the first run, which allocates and compiles."""
    runs = [e["ts"] for e in run_events(events)]
    begin = runs[1] if len(runs) > 1 else 0
    nodes = node_events(events)
    outermost = [e for e, around in nested(nodes) if around is None]
    measured = [(provider_of(e), e) for e in outermost if provider_of(e) not in LAUNCHING]
    launched = {provider_of(e) for e in nodes} & LAUNCHING
    if launched:
        on_gpu = [(each, e) for each, e in gpu_kernels(events, nodes) if each in launched]
        if launched - {each for each, _ in on_gpu}:
            return {}
        measured += on_gpu
    totals: dict[str, float] = defaultdict(float)
    for provider, event in measured:
        if event["ts"] >= begin:
            totals[provider] += event["dur"] / 1e3
    return {name: total / max(1, len(runs) - 1) for name, total in totals.items()}


def gpu_kernels(events: list[Event], nodes: list[Event]) -> list[tuple[str, Event]]:
    """Returns the events of GPU kernels with the provider of the node or operator that launched them."""
    by_name = {e["name"]: provider_of(e) for e in nodes}
    by_operator: dict[str, set[str]] = defaultdict(set)
    for e in nodes:
        by_operator[e["args"].get("op_name", "")].add(provider_of(e))
    found = []
    for event in events:
        if event.get("cat") != "Kernel":
            continue
        args = event.get("args", {})
        same = by_operator[args.get("op_name", "")]
        provider = provider_of(event) or by_name.get(args.get("parent_name", ""), "")
        found.append((provider or (min(same) if len(same) == 1 else ""), event))
    return found


def launching_nodes(nodes: list[Event]) -> Callable[[Event], str]:
    """Returns a function that finds the node that launched a GPU kernel, by name or as the only one of its
    operator; empty if unknown."""
    by_event: dict[str, set[str]] = defaultdict(set)
    by_operator: dict[str, set[str]] = defaultdict(set)
    for event in nodes:
        name = node_name(event)
        by_event[event["name"]].add(name)
        by_event[name].add(name)
        by_operator[event["args"].get("op_name")].add(name)

    def launching(event: Event) -> str:
        args = event.get("args", {})
        names = by_event.get(str(args.get("parent_name", ""))) or by_operator.get(args.get("op_name"), set())
        return min(names) if len(names) == 1 else ""

    return launching


Proto = Any
"""A protobuf class without type annotations: onnx's ModelProto, GraphProto or NodeProto."""
Shape = tuple[int, ...]
Ports = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of a node's inputs and of its outputs."""

_BESIDE = "session.model_external_initializers_file_folder_path"


def real_shapes(path: Path, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, Shape]:
    """Returns the shapes of tensors by name, including those of subgraphs: the branch that an If took, the last
    iteration of a loop.

    Runs the model on the processor, without optimization. A name that several nodes in separate branches use is
    missing if its shapes differ; so are sequences.
    """
    model = _parsed(path)
    ports = dict(_numbered(model.graph, []))
    events, arrays = _run(model, path, feeds, custom_ops)
    shapes = _joined(events, ports)
    # Tensors between the model's own functions are in no event, because only the bodies of functions run.
    lost = {name for node in model.graph.node for name in node.output if name} - shapes.keys() - arrays.keys()
    if lost:
        for name in sorted(lost):
            model.graph.output.add().name = name
        # Some values cannot be an output of a model; the shapes of the others are known nevertheless.
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
            f"'{path.name}' cannot be read as an ONNX model: {error_text(error)}",
            "Check the path, or export it again.",
        ) from error


def _numbered(graph: Proto, numbers: list[None]) -> Iterator[tuple[str, Ports]]:
    """Gives all nodes, also of subgraphs, unique names, and yields them with the inputs and outputs of each."""
    for node in graph.node:
        node.name = f"edgeopt_{len(numbers)}"
        numbers.append(None)
        yield node.name, (tuple(node.input), tuple(node.output))
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                # The inputs of a body have a producer as well.
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
            f"ONNX Runtime cannot run '{path.name}': {error_text(error)}",
            "Check the data against the inputs of the model: edgeopt analyze MODEL",
        ) from error


def _joined(events: list[Event], ports: dict[str, Ports]) -> dict[str, Shape]:
    found: dict[str, dict[str, Shape]] = {}
    for event in node_events(events):
        name = node_name(event)
        for side, key in zip(ports.get(name, ((), ())), ("input_type_shape", "output_type_shape"), strict=True):
            # Omitted values and values that are no tensors are not listed, and nothing shows which these are.
            listed = event["args"].get(key, ())
            values = [value for value in side if value]
            if len(listed) == len(values):
                for value, kind in zip(values, listed, strict=True):
                    found.setdefault(value, {})[name] = tuple(next(iter(kind.values())))
    made_by: dict[str, set[str]] = {}
    for name, (_, outputs) in ports.items():
        for value in outputs:
            made_by.setdefault(value, set()).add(name)
    return {value: shape for value, by in found.items() for shape in _agreed(value, by, made_by)}


def _agreed(value: str, by: dict[str, Shape], made_by: dict[str, set[str]]) -> Iterator[Shape]:
    """Yields the shape, unless several nodes produce tensors of this name with different shapes."""
    if len(made_by.get(value, ())) < 2 or len(set(by.values())) == 1:
        yield list(by.values())[-1]
