"""OpenVINO on the processor."""

from pathlib import Path

from edgeopt.backends.base import Available, Backend, Coverage, Options, Session
from edgeopt.backends.openvino.coverage import device_coverage
from edgeopt.backends.openvino.devices import package_available
from edgeopt.backends.openvino.options import OpenVinoOptions, cpu_aim
from edgeopt.backends.openvino.session import load_session
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


BACKEND = Backend(
    name=NAME,
    title="OpenVINO, CPU",
    formats=(".onnx", ".xml"),
    available=available,
    supports=supports,
    load=load,
    options=OpenVinoOptions,
    package="openvino",
)
