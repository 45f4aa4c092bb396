"""ONNX Runtime's own profile of some runs: its events, read from the file that it writes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnxruntime import InferenceSession, SessionOptions

    from edgeopt.backends.base import Array, Feeds

Event = dict[str, Any]

_KERNEL = "_kernel_time"


def profile(
    made: "SessionOptions", opened: "Callable[[SessionOptions], InferenceSession]", feeds: "Feeds", runs: int
) -> "tuple[list[Event], dict[str, Array]]":
    """The events of this number of runs, and the results of the last one."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="edgeopt-times-") as folder:
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
    """Whole runs, in their order."""
    return sorted((e for e in events if e.get("name") == "model_run"), key=lambda e: float(e["ts"]))


def node_events(events: list[Event]) -> list[Event]:
    """Nodes at work, each as often as it ran; not what was waited for around them."""
    return [e for e in events if e.get("cat") == "Node" and e["name"].endswith(_KERNEL) and provider_of(e)]


def node_name(event: Event) -> str:
    """Of the node as the runtime has it: nodes without a name are called by their operator and a number."""
    return str(event["name"]).removesuffix(_KERNEL)


def provider_of(event: Event) -> str:
    return str(event.get("args", {}).get("provider", ""))


def nested(nodes: list[Event]) -> "Iterator[tuple[Event, Event | None]]":
    """Each with the nearest one on the same thread that it ran within: Loop, Scan and If hold their bodies."""
    open_: dict[Any, list[Event]] = {}
    for event in sorted(nodes, key=lambda e: (e["ts"], -e["dur"])):
        stack = open_.setdefault((event.get("pid"), event.get("tid")), [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        yield event, stack[-1] if stack else None
        stack.append(event)
