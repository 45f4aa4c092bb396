"""OpenVINO on the processor."""

from pathlib import Path

from edgeopt.backends.base import Available, Backend, Coverage, Feeds, Kernels, Options, Session
from edgeopt.backends.openvino.coverage import device_coverage
from edgeopt.backends.openvino.devices import package_available
from edgeopt.backends.openvino.opening import load_session
from edgeopt.backends.openvino.options import OpenVinoOptions, cpu_aim
from edgeopt.backends.options import read_options
from edgeopt.hw.device import Unavailable

NAME = "openvino-cpu"


def available() -> Available | Unavailable:
    return package_available()


def supports(path: Path) -> Coverage:
    return device_coverage(path, "CPU")


def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
    chosen = read_options(OpenVinoOptions, options, NAME)
    return load_session(path, cpu_aim(chosen), chosen, strict=strict, custom_ops=custom_ops)


def timed(
    path: Path,
    options: Options,
    feeds: Feeds,
    runs: int = 20,
    custom_ops: tuple[str, ...] = (),
    limit_s: float = 5.0,
) -> Kernels:
    from edgeopt.backends.openvino.op_times import op_times

    chosen = read_options(OpenVinoOptions, options, NAME)
    return op_times(path, cpu_aim(chosen), chosen, feeds, runs, custom_ops, limit_s)


BACKEND = Backend(
    name=NAME,
    title="OpenVINO, CPU",
    formats=(".onnx", ".xml"),
    available=available,
    supports=supports,
    load=load,
    options=OpenVinoOptions,
    op_times=timed,
    package="openvino",
    converts_within=True,
)
