"""The functions of a backend for a device of OpenVINO."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from edgeopt.backends.base import (
    ON_INPUTS,
    Available,
    Backend,
    Coverage,
    EightBits,
    Feeds,
    Kernels,
    Options,
    Session,
    refuse_fallback,
)
from edgeopt.backends.openvino.model import NO_WORK, compile_model, core, core_with, places, read_model
from edgeopt.backends.openvino.options import Aim, SharedOptions
from edgeopt.backends.openvino.session import OpenVinoSession
from edgeopt.backends.options import read_options
from edgeopt.errors import ModelError
from edgeopt.hw.device import Unavailable

if TYPE_CHECKING:
    from openvino import Node


def device_coverage(path: Path, device: str) -> Coverage:
    try:
        model = read_model(path)
    except ModelError as refusal:
        return _unconverted(path, refusal)
    known = core().query_model(model, device)
    nodes = [op for op in model.get_ops() if op.get_type_name() not in NO_WORK]
    missing = tuple(f"{op.get_type_name()}: {_name(op)}" for op in nodes if _name(op) not in known)
    return Coverage(len(nodes) - len(missing), len(nodes), missing)


def _unconverted(path: Path, refusal: ModelError) -> Coverage:
    """Returns the coverage without nodes that OpenVINO cannot convert; raises the refusal if it converts all."""
    if path.suffix != ".onnx" or not path.is_file():
        raise refusal
    from openvino import frontend as binding

    manager = binding.FrontEndManager()
    frontend = manager.load_by_framework("onnx")
    try:
        model = frontend.convert_partially(frontend.load(str(path)))
    except (
        RuntimeError,
        binding.GeneralFailure,
        binding.NotImplementedFailure,
        binding.OpConversionFailure,
        binding.OpValidationFailure,
    ):
        raise refusal from None
    nodes = [op for op in model.get_ops() if op.get_type_name() not in NO_WORK]
    left = [op for op in nodes if "FrameworkNode" in op.get_type_name() or "ONNXNode" in op.get_type_name()]
    if not left:
        raise refusal
    labels = _labels(path)
    missing = tuple(labels.get(_name(op), f"unknown operator: {_name(op)}") for op in left)
    return Coverage(len(nodes) - len(missing), len(nodes), missing)


def _name(op: "Node") -> str:
    return str(op.get_friendly_name())


def _labels(path: Path) -> dict[str, str]:
    """Returns labels of nodes by all their names, from the file: OpenVINO's own nodes crash (2026.4)."""
    try:
        import onnx
    except ImportError:
        return {}
    nodes = onnx.load(path, load_external_data=False).graph.node
    return {name: f"{n.op_type}: {n.name or name}" for n in nodes for name in (n.name, *n.output) if name}


def load_session(
    path: Path, aim: Aim, options: SharedOptions, *, strict: bool, custom_ops: tuple[str, ...]
) -> OpenVinoSession:
    runtime = core_with(custom_ops)
    read = partial(read_model, path, runtime, {} if options.mmap else {"ENABLE_MMAP": False})
    model = read()
    known = None if aim.device == "CPU" else places(runtime, model, aim)
    if strict:
        aim = aim._replace(config={**aim.config, **aim.strict_config})
    session: OpenVinoSession
    if options.buckets:
        # Cutting and padding need numpy, which listing the backends does not.
        from edgeopt.backends.openvino.bucketed import bucketed

        session = bucketed(runtime, read, model, aim, options, known)
    else:
        session = OpenVinoSession(runtime, read, model, aim, dict(options.shapes), known)
    if strict:
        refuse_fallback(session.placement, path)
    return session


def device_times_ms(path: Path, aim: Aim, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, float]:
    """Returns the milliseconds of the second run by device; the first may still prepare.

    Loads the model again, because profiling takes time.
    """
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
        # HETERO prefixes names with the number of the part: `subgraph0: conv1`.
        name = counted.node_name.split(": ", 1)[-1]
        device = known.device_of.get(name, "unknown") if len(only) > 1 else only[0]
        times[device] = times.get(device, 0.0) + counted.real_time.total_seconds() * 1e3
    return times


Chosen = TypeVar("Chosen", bound=SharedOptions)


@dataclass(frozen=True, slots=True)
class Target(Generic[Chosen]):
    """One device of OpenVINO, with the properties that differ between devices."""

    name: str
    title: str
    device: str
    """The OpenVINO device whose operators are checked for coverage."""
    options: type[Chosen]
    aim: Callable[[Chosen], Aim]
    available: Callable[[], Available | Unavailable]
    on_processor: bool = False
    chooses_device: bool = False
    eight_bits: EightBits = ON_INPUTS
    tells_times: bool = False
    tells_kernels: bool = True


def backend_of(target: Target[Chosen]) -> Backend:
    def chosen_of(options: Options) -> Chosen:
        return read_options(target.options, options, target.name)

    def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
        chosen = chosen_of(options)
        return load_session(path, target.aim(chosen), chosen, strict=strict, custom_ops=custom_ops)

    def times(path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, float]:
        return device_times_ms(path, target.aim(chosen_of(options)), feeds, custom_ops)

    def timed(
        path: Path,
        options: Options,
        feeds: Feeds,
        runs: int = 20,
        custom_ops: tuple[str, ...] = (),
        limit_s: float = 5.0,
    ) -> Kernels:
        from edgeopt.backends.openvino.op_times import op_times

        chosen = chosen_of(options)
        return op_times(path, target.aim(chosen), chosen, feeds, runs, custom_ops, limit_s)

    def supports(path: Path) -> Coverage:
        return device_coverage(path, target.device)

    return Backend(
        name=target.name,
        title=target.title,
        formats=(".onnx", ".xml"),
        available=target.available,
        supports=supports,
        load=load,
        times=times if target.tells_times else None,
        op_times=timed if target.tells_kernels else None,
        options=target.options,
        package="openvino",
        converts_within=True,
        device=target.device,
        on_processor=target.on_processor,
        chooses_device=target.chooses_device,
        eight_bits=target.eight_bits,
    )
