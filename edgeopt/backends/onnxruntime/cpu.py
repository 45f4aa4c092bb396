"""ONNX Runtime on the processor."""

from pathlib import Path

from edgeopt.backends.base import Available, Backend, Coverage, Feeds, Kernels, Options, Session, installed
from edgeopt.backends.onnxruntime.coverage import cpu_coverage
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.onnxruntime.provider import CPU, RUNTIMES, Provider
from edgeopt.backends.onnxruntime.session import load_session
from edgeopt.backends.onnxruntime.times import provider_times
from edgeopt.hw.device import Unavailable

NAME = "onnxruntime-cpu"
PROVIDER = Provider(
    name=NAME, title="ONNX Runtime, CPU", key=CPU, options=OrtOptions, distributions=("onnxruntime",), extra="cpu"
)


def available() -> Available | Unavailable:
    """Every flavour of the runtime has the processor's provider, so none is imported to ask."""
    return installed("onnxruntime", RUNTIMES, "cpu")


def supports(path: Path) -> Coverage:
    return cpu_coverage(path, NAME)


def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
    return load_session(PROVIDER, path, options, strict, custom_ops)


def times(path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, float]:
    return provider_times(PROVIDER, path, options, feeds, custom_ops)


def timed(
    path: Path,
    options: Options,
    feeds: Feeds,
    runs: int = 20,
    custom_ops: tuple[str, ...] = (),
    limit_s: float = 5.0,
) -> Kernels:
    from edgeopt.backends.onnxruntime.op_times import op_times

    return op_times(PROVIDER, path, options, feeds, runs, custom_ops, limit_s)


BACKEND = Backend(
    name=NAME,
    title=PROVIDER.title,
    formats=(".onnx",),
    available=available,
    supports=supports,
    load=load,
    options=OrtOptions,
    times=times,
    op_times=timed,
    package="onnxruntime",
)
