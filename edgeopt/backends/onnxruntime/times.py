"""How long each provider works in one run, from the runtime's own profile; only on request, as it costs time."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.backends.base import Feeds, Options
from edgeopt.backends.onnxruntime.custom_ops import register
from edgeopt.backends.onnxruntime.opening import check_dimensions, open_with, session_options_for
from edgeopt.backends.onnxruntime.provider import CUDA, Provider
from edgeopt.backends.options import read_options

_RUNS = 5
_GRAPHS = ("enable_cuda_graph", "trt_cuda_graph_enable")
_LAUNCHING = frozenset({CUDA, "TensorrtExecutionProvider", "DmlExecutionProvider"})
"""What the runtime times of their nodes is mostly how long it took to hand the work to the GPU."""

Event = dict[str, Any]


def provider_times(
    provider: Provider, path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()
) -> dict[str, float]:
    """Milliseconds in the kernels of one run, by provider; what a provider fused is one kernel.

    Empty where a provider works on a GPU and the runtime does not tell for how long: shares would mislead.
    """
    from tempfile import TemporaryDirectory

    chosen = read_options(provider.options, options, provider.name)
    # A graph is replayed as one, without the nodes that it was recorded from.
    chosen = msgspec.structs.replace(chosen, **{name: False for name in _GRAPHS if hasattr(chosen, name)})
    made = session_options_for(chosen, provider.name)
    check_dimensions(path, chosen, provider.name)
    register(custom_ops, made)
    with TemporaryDirectory(prefix="edgeopt-times-") as folder:
        made.enable_profiling = True
        made.profile_file_prefix = str(Path(folder) / "profile")
        session = open_with(provider, path, chosen, made)
        for _ in range(_RUNS + 1):
            session.run(None, dict(feeds))
        return _by_provider(json.loads(Path(session.end_profiling()).read_bytes()))


def _by_provider(events: list[Event]) -> dict[str, float]:
    """The first run is left out: it allocates, and some providers compile in it."""
    runs = sorted(e["ts"] for e in events if e.get("name") == "model_run")
    begin = runs[1] if len(runs) > 1 else 0
    nodes = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("_kernel_time") and _provider(e)]
    measured = [(_provider(e), e) for e in _outermost(nodes) if _provider(e) not in _LAUNCHING]
    launched = {_provider(e) for e in nodes} & _LAUNCHING
    if launched:
        on_gpu = [(each, e) for each, e in _kernels(events, nodes) if each in launched]
        if launched - {each for each, _ in on_gpu}:
            return {}
        measured += on_gpu
    totals: dict[str, float] = defaultdict(float)
    for provider, event in measured:
        if event["ts"] >= begin:
            totals[provider] += event["dur"] / 1e3
    return {name: total / max(1, len(runs) - 1) for name, total in totals.items()}


def _outermost(nodes: list[Event]) -> list[Event]:
    """Without those within another on the same thread: Loop, Scan and If are timed, and their bodies again."""
    ends: dict[Any, float] = {}
    kept = []
    for event in sorted(nodes, key=lambda e: (e["ts"], -e["dur"])):
        thread = event.get("pid"), event.get("tid")
        if event["ts"] >= ends.get(thread, 0):
            kept.append(event)
            ends[thread] = event["ts"] + event["dur"]
    return kept


def _kernels(events: list[Event], nodes: list[Event]) -> list[tuple[str, Event]]:
    """What ran on a GPU, with the provider whose node launched it; it names that, or only its operator."""
    by_name = {e["name"]: _provider(e) for e in nodes}
    by_operator: dict[str, set[str]] = defaultdict(set)
    for e in nodes:
        by_operator[e["args"].get("op_name", "")].add(_provider(e))
    found = []
    for event in events:
        if event.get("cat") != "Kernel":
            continue
        args = event.get("args", {})
        same = by_operator[args.get("op_name", "")]
        provider = _provider(event) or by_name.get(args.get("parent_name", ""), "")
        found.append((provider or (min(same) if len(same) == 1 else ""), event))
    return found


def _provider(event: Event) -> str:
    return str(event.get("args", {}).get("provider", ""))
