"""Times the kernels of a model in a process of its own (`python -m edgeopt.measure.op_times_worker`)."""

from pathlib import Path

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available, Kernels
from edgeopt.data.samples import open_samples
from edgeopt.measure.serve import Answering, Failed, serve

OptionValue = str | int | float | bool | dict[str, list[int]]


class Wanted(msgspec.Struct, frozen=True):
    backend: str
    model_path: str
    samples_path: str
    options: dict[str, OptionValue] = {}
    custom_ops: tuple[str, ...] = ()
    runs: int = 100
    limit_s: float = 3.0


class KernelTimes(msgspec.Struct, frozen=True, tag="timed"):
    kernels: Kernels | None = None
    version: str = ""
    reason: str = ""
    """Why there are none."""


Answer = KernelTimes | Failed

decode_request = msgspec.json.Decoder(Wanted).decode
decode_answer = msgspec.json.Decoder(Answer).decode


def _answer(wanted: Wanted) -> KernelTimes:
    backend = backend_named(wanted.backend)
    state = backend.available()
    if not isinstance(state, Available):
        return KernelTimes(reason=state.reason)
    if backend.op_times is None:
        return KernelTimes(version=state.version, reason="its runtime does not report the time of single kernels")
    import numpy as np

    feeds = {name: np.array(array) for name, array in open_samples(Path(wanted.samples_path)).feeds(0).items()}
    found = backend.op_times(
        Path(wanted.model_path), wanted.options, feeds, wanted.runs, wanted.custom_ops, wanted.limit_s
    )
    return KernelTimes(found, state.version, found.reason)


ANSWERING = Answering(decode_request, lambda: _answer)

if __name__ == "__main__":
    serve(ANSWERING.lines())
