"""How long each provider works in one run, from the runtime's own profile; only on request, as it costs time."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgeopt.backends.base import Feeds, Options
from edgeopt.backends.onnxruntime.custom_ops import register
from edgeopt.backends.onnxruntime.opening import check_dimensions, open_with, session_options_for
from edgeopt.backends.onnxruntime.provider import Provider
from edgeopt.backends.options import read_options

_RUNS = 5


def provider_times(
    provider: Provider, path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()
) -> dict[str, float]:
    """Milliseconds in the kernels of one run, by provider; what a provider fused is one kernel."""
    from tempfile import TemporaryDirectory

    chosen = read_options(provider.options, options, provider.name)
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


def _by_provider(events: Iterable[dict[str, Any]]) -> dict[str, float]:
    """The first run is left out: it allocates, and some providers compile in it."""
    runs = sorted(e["ts"] for e in events if e.get("name") == "model_run")
    begin = runs[1] if len(runs) > 1 else 0
    totals: dict[str, float] = defaultdict(float)
    for event in events:
        provider = event.get("args", {}).get("provider")
        if (
            event.get("cat") == "Node"
            and provider
            and event["name"].endswith("_kernel_time")
            and event["ts"] >= begin
        ):
            totals[provider] += event["dur"] / 1e3
    return {name: total / max(1, len(runs) - 1) for name, total in totals.items()}
