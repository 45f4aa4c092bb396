"""The time of each layer in one run, with the nodes of the model that it computes, from OpenVINO's counters."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import Feeds, Kernel, Kernels
from edgeopt.backends.kernel_runs import RunTime, of_means, of_runs, turns
from edgeopt.backends.openvino.model import (
    NO_WORK,
    compile_model,
    core_with,
    places,
    read_model,
    tensor_info,
    with_shapes,
)
from edgeopt.backends.openvino.options import Aim
from edgeopt.errors import ModelError, error_text

if TYPE_CHECKING:
    from openvino import CompiledModel, Core, Model, Node

    from edgeopt.backends.openvino.options import SharedOptions

_NOT_TIMED = (*NO_WORK, "Const", "Input", "Output", "")
_PRECISIONS = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8", "u8": "int8"}


def op_times(
    path: Path,
    aim: Aim,
    options: "SharedOptions",
    feeds: Feeds,
    runs: int = 20,
    custom_ops: tuple[str, ...] = (),
    limit_s: float = 5.0,
) -> Kernels:
    """Returns the time of each layer after OpenVINO's own rewriting, in whole microseconds."""
    runtime = core_with(custom_ops)
    model = read_model(path, runtime)
    if options.shapes:
        model = with_shapes(model, tuple(tensor_info(port) for port in model.inputs), dict(options.shapes))
    device_of = places(runtime, model, aim).device_of
    counted = compile_model(runtime, model, aim.device, aim.config | {"PERF_COUNT": True})
    requests = [counted.create_infer_request(), _plain(runtime, model, aim)]
    run_ms: list[list[float]] = []
    seen: list[dict[str, Any]] = []
    try:
        for _ in turns(runs, limit_s):
            run_ms.append([_run_ms(request, feeds) for request in requests])
            seen.append({each.node_name: each for each in requests[0].get_profiling_info()})
    except RuntimeError as error:
        raise ModelError(
            f"OpenVINO cannot run '{path.name}': {error_text(error)}",
            "Check the data against the inputs of the model: edgeopt analyze MODEL",
        ) from error
    devices = [str(device) for device in counted.get_property("EXECUTION_DEVICES")]
    kernels = tuple(_kernels(seen, _layers(counted), devices, device_of))
    return Kernels(
        len(run_ms) - 1,
        statistics.median(each[0] for each in run_ms[1:]),
        statistics.median(each[1] for each in run_ms[1:]),
        kernels,
        "" if kernels else "the device does not tell the time of its layers",
    )


def _plain(runtime: "Core", model: "Model", aim: Aim) -> Any:  # noqa: ANN401 - its own session of requests
    return compile_model(runtime, model, aim.device, aim.config).create_infer_request()


def _run_ms(request: Any, feeds: Feeds) -> float:  # noqa: ANN401 - an InferRequest
    begin = time.perf_counter()
    request.infer(dict(feeds))
    return (time.perf_counter() - begin) * 1e3


def _layers(compiled: "CompiledModel") -> "dict[str, Node]":
    """Returns the layers of the compiled model by name, in its order; empty if the device does not report them."""
    try:
        return {str(op.get_friendly_name()): op for op in compiled.get_runtime_model().get_ordered_ops()}
    except RuntimeError:
        return {}


def _kernels(
    seen: list[dict[str, Any]], layers: "dict[str, Node]", devices: list[str], device_of: dict[str, str]
) -> Iterator[Kernel]:
    full = {_bare(name): name for name in seen[-1]}
    prepared = _prepared(layers)
    for bare in (*layers, *(name for name in full if name not in layers)):
        name, layer = full.get(bare, bare), layers.get(bare)
        counted = seen[-1].get(name)
        ran = counted is not None and counted.status == type(counted.status).EXECUTED
        operator = _runtime_info(layer, "layerType") if counted is None else str(counted.node_type)
        if operator in _NOT_TIMED or bare in prepared or not (ran or layer):
            continue
        times = [each[name].real_time.total_seconds() * 1e3 for each in seen if name in each]
        time_ms, *range_ms = _one_run(times, averaged=devices == ["CPU"]) if ran else (0.0, 0.0, 0.0)
        yield Kernel(
            name=name,
            operator=operator,
            time_ms=time_ms,
            calls=float(ran),
            place=devices[0] if len(devices) == 1 else device_of.get(bare, "unknown"),
            sources=_sources(layer) or (bare,),
            reads=() if layer is None else tuple(_tensor(value) for value in layer.input_values()),
            outputs=() if layer is None else tuple(_tensor(value) for value in layer.outputs()),
            precision=_PRECISIONS.get(_runtime_info(layer, "runtimePrecision"), ""),
            range_ms=(range_ms[0], range_ms[1]),
        )


def _prepared(layers: "dict[str, Node]") -> set[str]:
    """Returns the names of constants and of layers that are computed from constants when compiling."""
    found: set[str] = set()
    for name, layer in layers.items():
        before = [str(value.get_node().get_friendly_name()) for value in layer.input_values()]
        if all(each in found for each in before) if before else _runtime_info(layer, "layerType") == "Const":
            found.add(name)
    return found


def _one_run(times: list[float], averaged: bool) -> RunTime:
    """Returns the time without the first run; the CPU's counters report the mean of all runs so far."""
    return of_means(times) if averaged else of_runs(times[1:] or times)


def _sources(layer: "Node | None") -> tuple[str, ...]:
    return tuple(name for name in _runtime_info(layer, "originalLayersNames").split(",") if name)


def _runtime_info(layer: "Node | None", key: str) -> str:
    if layer is None or key not in layer.get_rt_info():
        return ""
    value = layer.get_rt_info()[key]
    return str(value if isinstance(value, str) else value.astype(str))


def _tensor(value: Any) -> str:  # noqa: ANN401 - an Output
    return f"{value.get_node().get_friendly_name()}:{value.get_index()}"


def _bare(name: str) -> str:
    """Removes the prefix of HETERO, the number of the part: `subgraph0: conv1`."""
    return name.split(": ", 1)[-1]
