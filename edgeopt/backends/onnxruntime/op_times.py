"""The time of each kernel in one run, with the nodes of the model that the runtime reports for it."""

import json
import statistics
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import Feeds, Kernel, Kernels, Options
from edgeopt.backends.kernel_runs import RunTime, of_runs, turns
from edgeopt.backends.onnxruntime.opening import open_with, runtime_errors
from edgeopt.backends.onnxruntime.profile import (
    LAUNCHING,
    Event,
    gpu_kernels,
    launching_nodes,
    nested,
    node_events,
    node_name,
    provider_of,
    run_events,
    timed_options,
)
from edgeopt.backends.onnxruntime.provider import Provider
from edgeopt.errors import ModelError, error_text
from edgeopt.workspace import temporary_folder

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Proto = Any
"""A protobuf class without type annotations: onnx's GraphProto or NodeProto."""
Key = tuple[str, str]
"""The path of the calling kernels, and the name of the kernel."""

_INTO = "\0"  # occurs in no name
_TYPES = {"float": "fp32", "float16": "fp16", "bfloat16": "bf16", "int8": "int8", "uint8": "int8"}
_BLOCKED = "com.microsoft.nchwc"
_OPTIMIZED, _WEIGHTS = "optimized.onnx", "optimized.data"


def op_times(
    provider: Provider,
    path: Path,
    options: Options,
    feeds: Feeds,
    runs: int = 20,
    custom_ops: tuple[str, ...] = (),
    limit_s: float = 5.0,
) -> Kernels:
    """Returns the time of each kernel after the runtime's rewriting; nodes with the same name count together."""
    with temporary_folder("times") as folder:
        profiled, optimized = _profiled(provider, path, options, custom_ops, Path(folder))
        chosen, made = timed_options(provider, path, options, custom_ops)
        plain = open_with(provider, path, chosen, made)
        try:
            times = [(_run_ms(profiled, feeds), _run_ms(plain, feeds)) for _ in turns(runs, limit_s)][1:]
        except runtime_errors() as error:
            raise ModelError(
                f"ONNX Runtime cannot run '{path.name}': {error_text(error)}",
                "Check the data against the inputs of the model: edgeopt analyze MODEL",
            ) from error
        finally:
            written = Path(profiled.end_profiling())
        events: list[Event] = json.loads(written.read_bytes())
        nodes = _graph(optimized) if optimized.is_file() else None
    kernels = _kernels(events, nodes)
    reason = "" if kernels else "the model has no node left that would run"
    if {k.place for k in kernels} & LAUNCHING and not _add_gpu_times(events, kernels):
        kernels, reason = [], "the runtime does not tell how long its kernels work on this GPU"
    return Kernels(
        len(times),
        statistics.median(profiled_ms for profiled_ms, _ in times),
        statistics.median(plain_ms for _, plain_ms in times),
        tuple(kernels),
        reason,
    )


def _profiled(
    provider: Provider, path: Path, options: Options, custom_ops: tuple[str, ...], folder: Path
) -> "tuple[InferenceSession, Path]":
    """Returns a profiling session, and the path of the model that the runtime writes after rewriting it."""
    optimized = folder / _OPTIMIZED
    for keep in (True, False):
        chosen, made = timed_options(provider, path, options, custom_ops)
        made.enable_profiling = True
        made.profile_file_prefix = str(folder / "profile")
        if keep:
            made.optimized_model_filepath = str(optimized)
            made.add_session_config_entry("session.optimized_model_external_initializers_file_name", _WEIGHTS)
        # Nodes that some providers compile cannot be written to a file.
        with suppress(*((ModelError,) if keep else ())):
            return open_with(provider, path, chosen, made), optimized
    raise AssertionError  # the second time raises by itself


def _run_ms(session: "InferenceSession", feeds: Feeds) -> float:
    begin = time.perf_counter()
    session.run(None, dict(feeds))
    return (time.perf_counter() - begin) * 1e3


def _graph(path: Path) -> Proto | None:
    try:
        import onnx
    except ImportError:
        return None
    return onnx.load(path, load_external_data=False).graph


def _kernels(events: list[Event], graph: Proto | None) -> list[Kernel]:
    """Returns the kernels by first occurrence, without the first run, which allocates and compiles."""
    runs = [e["ts"] for e in run_events(events)][1:]
    ms: dict[Key, list[float]] = defaultdict(lambda: [0.0] * len(runs))
    calls: dict[Key, int] = defaultdict(int)
    first: dict[Key, Event] = {}
    inside: dict[Key, list[Event]] = defaultdict(list)
    keys: dict[int, Key] = {}
    for event, around in nested(node_events(events)):
        run = bisect_right(runs, event["ts"]) - 1
        if run < 0:
            continue
        outer = keys[id(around)] if around is not None else ("", "")
        key = keys[id(event)] = (_INTO.join(filter(None, outer)), node_name(event))
        ms[key][run] += event["dur"] / 1e3
        if around is not None:
            ms[outer][run] -= event["dur"] / 1e3
        calls[key] += 1
        first.setdefault(key, event)
        if run == len(runs) - 1:
            inside[outer].append(event)
    protos = dict(_matched(("", ""), graph, inside, keys)) if graph is not None else {}
    names = _renamed(protos)
    return [
        _kernel(key, event, of_runs(ms[key]), calls[key] / len(runs), protos.get(key), names)
        for key, event in first.items()
    ]


def _kernel(
    key: Key, event: Event, time_ms: RunTime, calls: float, proto: Proto | None, names: dict[str, str]
) -> Kernel:
    operator = str(event["args"].get("op_name", "")) if proto is None else str(proto.op_type)
    reads, outputs = ((), ()) if proto is None else (proto.input, proto.output)
    outer = key[0].rpartition(_INTO)[2]
    return Kernel(
        name=key[1],
        operator=operator,
        time_ms=time_ms[0],
        calls=calls,
        place=provider_of(event),
        sources=(key[1],),
        reads=tuple(names.get(name, name) for name in reads if name),
        outputs=tuple(names.get(name, name) for name in outputs if name),
        within=outer,
        precision=_precision(operator, event),
        range_ms=time_ms[1:],
    )


def _precision(operator: str, event: Event) -> str:
    """Returns the precision of the first input, or `int8` for integer products, which may convert floats."""
    kinds: list[dict[str, list[int]]] = event["args"].get("input_type_shape") or [{}]
    if operator.startswith("Dynamic") or "Integer" in operator:
        return "int8"
    return _TYPES.get(next(iter(kinds[0]), ""), "")


def _matched(
    outer: Key, graph: Proto, inside: dict[Key, list[Event]], keys: dict[int, Key]
) -> Iterator[tuple[Key, Proto]]:
    """Yields the nodes of the written model behind the events, matched by order or else by name."""
    events = inside[outer]
    in_turn = [graph.node[place % len(graph.node)] for place in range(len(events))] if graph.node else []
    if len(events) % max(1, len(graph.node)) or any(
        event["args"].get("op_name") != node.op_type or (node.name and node.name != node_name(event))
        for event, node in zip(events, in_turn, strict=False)
    ):
        by_name = {node.name: node for node in graph.node if node.name}
        in_turn = [by_name.get(node_name(event)) for event in events]
    for event, node in zip(events, in_turn, strict=False):
        if node is None:
            continue
        yield keys[id(event)], node
        for body in _bodies(node):
            yield from _matched(keys[id(event)], body, inside, keys)


def _bodies(node: Proto) -> Iterator[Proto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _renamed(protos: dict[Key, Proto]) -> dict[str, str]:
    """Returns the original names of tensors in blocks of channels, from the names of their nodes."""
    return {
        node.output[0]: node.name.rpartition("_nchwc")[0]
        for node in protos.values()
        if node.domain == _BLOCKED and len(node.output) == 1 and "_nchwc" in node.name
    }


def _add_gpu_times(events: list[Event], kernels: list[Kernel]) -> bool:
    """Replaces launch times by times on the GPU; returns False if a provider reports none."""
    import msgspec

    nodes = node_events(events)
    runs = [e["ts"] for e in run_events(events)][1:]
    on_gpu: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(runs))
    seen = set()
    launching = launching_nodes(nodes)
    for provider, event in gpu_kernels(events, nodes):
        run = bisect_right(runs, event["ts"]) - 1
        if run >= 0 and provider in LAUNCHING:
            seen.add(provider)
            on_gpu[launching(event)][run] += event["dur"] / 1e3
    for place, kernel in enumerate(kernels):
        if kernel.place in LAUNCHING:
            time_ms, *range_ms = of_runs(on_gpu.pop(kernel.name, [0.0]))
            kernels[place] = msgspec.structs.replace(kernel, time_ms=time_ms, range_ms=tuple(range_ms))
    kernels += [
        Kernel(name or "unknown", "", of_runs(times)[0], place=min(seen), range_ms=of_runs(times)[1:])
        for name, times in on_gpu.items()
        if any(times)
    ]
    return not ({kernel.place for kernel in kernels} & LAUNCHING) - seen
