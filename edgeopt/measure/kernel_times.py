"""The task of a worker that times the kernels of a model."""

from pathlib import Path

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available, Kernels
from edgeopt.data.samples import open_samples

OptionValue = str | int | float | bool | dict[str, list[int]]


class TimeKernels(msgspec.Struct, frozen=True, tag="time-kernels"):
    backend: str
    model_path: str
    samples_path: str
    options: dict[str, OptionValue] = {}
    custom_ops: tuple[str, ...] = ()
    runs: int = 100
    limit_s: float = 3.0


class KernelTimes(msgspec.Struct, frozen=True, tag="kernel-times"):
    kernels: Kernels | None = None
    version: str = ""
    reason: str = ""
    """The reason if there are no kernels."""


def time_kernels(request: TimeKernels) -> KernelTimes:
    backend = backend_named(request.backend)
    state = backend.available()
    if not isinstance(state, Available):
        return KernelTimes(reason=state.reason)
    if backend.op_times is None:
        return KernelTimes(version=state.version, reason="its runtime does not report the time of single kernels")
    import numpy as np

    feeds = {name: np.array(array) for name, array in open_samples(Path(request.samples_path)).feeds(0).items()}
    found = backend.op_times(
        Path(request.model_path), request.options, feeds, request.runs, request.custom_ops, request.limit_s
    )
    return KernelTimes(found, state.version, found.reason)
