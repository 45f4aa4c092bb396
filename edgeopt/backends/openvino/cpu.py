"""OpenVINO on the processor."""

from pathlib import Path

from edgeopt.backends.base import Available, Backend, Coverage, Options, Session
from edgeopt.backends.openvino.coverage import cpu_coverage
from edgeopt.backends.openvino.session import load_session
from edgeopt.backends.packages import installed
from edgeopt.hw.device import Unavailable

NAME = "openvino-cpu"


def available() -> Available | Unavailable:
    return installed("openvino", ("openvino", "openvino-nightly"), "openvino")


def supports(path: Path) -> Coverage:
    return cpu_coverage(path)


def load(path: Path, options: Options) -> Session:
    return load_session(path, options, NAME)


BACKEND = Backend(
    name=NAME,
    title="OpenVINO, CPU",
    formats=(".onnx", ".xml"),
    available=available,
    supports=supports,
    load=load,
    package="openvino",
)
