"""ONNX Runtime on the processor."""

from pathlib import Path

from edgeopt.backends.base import Available, Backend, Coverage, Options, Session
from edgeopt.backends.onnxruntime.coverage import cpu_coverage
from edgeopt.backends.onnxruntime.session import load_session
from edgeopt.backends.packages import installed
from edgeopt.hw.device import Unavailable

NAME = "onnxruntime-cpu"


def available() -> Available | Unavailable:
    return installed("onnxruntime", ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml"), "cpu")


def supports(path: Path) -> Coverage:
    return cpu_coverage(path, NAME)


def load(path: Path, options: Options) -> Session:
    return load_session(path, options, NAME, ("CPUExecutionProvider",))


BACKEND = Backend(
    name=NAME,
    title="ONNX Runtime, CPU",
    formats=(".onnx",),
    available=available,
    supports=supports,
    load=load,
    package="onnxruntime",
)
