"""How much of a run each device takes, as OpenVINO's own counters say."""

from pathlib import Path
from typing import Any

from edgeopt.backends.base import Feeds
from edgeopt.backends.openvino.model import compile_model, core_with, read_model
from edgeopt.backends.openvino.options import Aim
from edgeopt.backends.openvino.placement import places


def device_times_ms(path: Path, aim: Aim, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, float]:
    """Of the second run, because the first may still prepare; loads the model again, as counting costs time."""
    runtime = core_with(custom_ops)
    model = read_model(path, runtime)
    known = places(runtime, model, aim)
    compiled = compile_model(runtime, model, aim.device, aim.config | {"PERF_COUNT": True})
    request: Any = compiled.create_infer_request()
    for _ in range(2):
        request.infer(dict(feeds))
    only = [str(device) for device in compiled.get_property("EXECUTION_DEVICES")]
    times: dict[str, float] = {}
    for counted in request.get_profiling_info():
        # HETERO puts the number of the part before the name: `subgraph0: conv1`.
        name = counted.node_name.split(": ", 1)[-1]
        device = known.device_of.get(name, "unknown") if len(only) > 1 else only[0]
        times[device] = times.get(device, 0.0) + counted.real_time.total_seconds() * 1e3
    return times
