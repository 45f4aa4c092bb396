"""A backend for hardware-free tests, which runs anywhere on a model that is a small JSON file.

A `NAME.null.json` says what the model takes and gives, and may plant faults:

    {"inputs":  [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}],
     "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 2]}],
     "behaviour": "mix",         "zeros", or "mix": numbers that depend on all inputs, row by row in a batch
     "noise": 0.0,               added to "mix", so that two models can differ by a known amount
     "latency_ms": 0.0,          how long a run takes; the option of the same name goes before it
     "row_ms": 0.0,              how much longer each further row of the first input makes a run
     "load_ms": 0.0,             how long loading takes
     "late_s": 0.0, "late_ms": 0.0,    a run takes `late_ms` longer once `late_s` have passed since loading
     "nodes": 1, "unsupported": ["Foo: bar"],    what `supports` answers
     "fallen": ["Foo: bar"],     nodes that run elsewhere: told in `placement`, refused by a strict load
     "flood_stderr_bytes": 0,    written to stderr while loading
     "stdout_bytes": 0,          written past Python to descriptor 1 while loading, as native code does
     "fail": "", "crash": "", "hang": "",        "load" or "run": a ModelError, a SIGSEGV, no return,
     "hang_on": null, "crash_on": null,    the same in a run whose first input contains this number
     "leak_on": null,            64 MiB taken and kept by such a run
     "stray": false,             loading leaves a process behind, outside of the session if that is possible
     "eat_memory_at": ""}                        memory taken and touched, 64 MiB at a time, without end

Named dimensions of outputs take the size that the inputs give them; unknown ones are 1.
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt.backends.base import (
    Array,
    Available,
    Backend,
    Coverage,
    Feeds,
    Options,
    Placement,
    TensorInfo,
    closed,
    prepare,
    refuse_fallback,
)
from edgeopt.backends.options import Threads, about, read_options
from edgeopt.decoding import thread_safe
from edgeopt.errors import ModelError, UsageError

NAME = "null"
SUFFIX = ".null.json"
_SPIN_S = 0.3e-3
"""The longest delay of a sleep on a quiet machine, with a margin."""
ELSEWHERE = "elsewhere"
"""The name in `Placement.nodes` for nodes that fell back."""
DTYPES = (
    "float16", "float32", "float64", "bool", "str",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip

_STEP_BYTES = 64 * 2**20

Moment = Literal["", "load", "run"]
Positive = Annotated[float, msgspec.Meta(ge=0)]


class NullModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    behaviour: Literal["zeros", "mix"] = "zeros"
    noise: float = 0.0
    latency_ms: Positive = 0.0
    row_ms: Positive = 0.0
    load_ms: Positive = 0.0
    late_s: Positive = 0.0
    late_ms: Positive = 0.0
    nodes: int = 1
    unsupported: tuple[str, ...] = ()
    fallen: tuple[str, ...] = ()
    flood_stderr_bytes: int = 0
    stdout_bytes: int = 0
    fail: Moment = ""
    crash: Moment = ""
    hang: Moment = ""
    hang_on: float | None = None
    crash_on: float | None = None
    leak_on: float | None = None
    stray: bool = False
    eat_memory_at: Moment = ""


class NullOptions(msgspec.Struct, frozen=True):
    threads: Annotated[
        Threads, about("Taken and ignored, so that the searches of real backends can be tried here")
    ] = 0
    latency_ms: Annotated[Positive | None, about("How long a run takes; empty is what the model says")] = None


class NullSession:
    """A session that is safe to use from several threads, because a run keeps no state."""

    def __init__(self, model: NullModel, latency_ms: float) -> None:
        self.inputs = model.inputs
        self.outputs = model.outputs
        self.placement = _placement(model)
        self._model = model
        self._latency_ms = latency_ms
        self._loaded_s = time.perf_counter()
        self._closed = False
        self._leaked: list[bytes] = []

    def run(self, feeds: Feeds) -> dict[str, Array]:
        start = time.perf_counter()
        if self._closed:
            raise closed()
        arrays = prepare(self.inputs, feeds)
        _fault(self._model, "run")
        first = arrays[self.inputs[0].name] if self.inputs else ()
        if self._model.hang_on is not None and self._model.hang_on in first:
            _hang()
        if self._model.crash_on is not None and self._model.crash_on in first:
            signal.raise_signal(signal.SIGSEGV)
        if self._model.leak_on is not None and self._model.leak_on in first:
            self._leaked.append(b"x" * _STEP_BYTES)
        sizes = _sizes(self.inputs, arrays)
        results = {info.name: _output(self._model, info, sizes, arrays) for info in self.outputs}
        late_ms = self._model.late_ms if start - self._loaded_s >= self._model.late_s else 0.0
        row_ms = self._model.row_ms * (len(arrays[self.inputs[0].name]) - 1) if self._model.row_ms else 0.0
        _wait_until(start + (self._latency_ms + late_ms + row_ms) / 1e3)
        return results

    def close(self) -> None:
        self._closed = True


def read_null_model(path: Path) -> NullModel:
    try:
        model = msgspec.json.decode(path.read_bytes(), type=thread_safe(NullModel))
    except OSError as error:
        raise ModelError(f"The model {path} cannot be read: {error.strerror}.", "Check the path.") from error
    except msgspec.DecodeError as error:
        raise ModelError(
            f"The model {path} is not a null model: {error}.", "See edgeopt/backends/null.py for the format."
        ) from error
    unknown = [port for port in (*model.inputs, *model.outputs) if port.dtype not in DTYPES]
    if unknown:
        raise ModelError(
            f"The model {path} has a tensor of the type '{unknown[0].dtype}'.", f"Use: {', '.join(DTYPES)}."
        )
    return model


def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> NullSession:
    chosen = read_options(NullOptions, options, NAME)
    if custom_ops:
        raise UsageError(f"The backend {NAME} runs no custom operators.", "Leave out their library.")
    start = time.perf_counter()
    model = read_null_model(path)
    if strict:
        refuse_fallback(_placement(model), path)
    if model.flood_stderr_bytes:
        sys.stderr.write("flood " * (model.flood_stderr_bytes // 6 + 1))
        sys.stderr.flush()
    _write_out(model.stdout_bytes)
    if model.stray:
        _leave_process()
    _fault(model, "load")
    _wait_until(start + model.load_ms / 1e3)
    return NullSession(model, model.latency_ms if chosen.latency_ms is None else chosen.latency_ms)


def supports(path: Path) -> Coverage:
    model = read_null_model(path)
    return Coverage(model.nodes - len(model.unsupported), model.nodes, model.unsupported)


def available() -> Available:
    return Available("1")


def times(path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, float]:
    """Returns the planted latency, divided equally among the nodes."""
    del feeds, custom_ops
    model = read_null_model(path)
    chosen = read_options(NullOptions, options, NAME)
    latency_ms = model.latency_ms if chosen.latency_ms is None else chosen.latency_ms
    placement = _placement(model)
    nodes = placement.nodes if placement else {NAME: model.nodes}
    return {place: latency_ms * count / model.nodes for place, count in nodes.items()}


def _fault(model: NullModel, moment: Moment) -> None:
    if model.fail == moment:
        raise ModelError(f"The null model fails while it should {moment}, as planted.", "Remove 'fail' from it.")
    if model.crash == moment:
        signal.raise_signal(signal.SIGSEGV)
    if model.hang == moment:
        _hang()
    if model.eat_memory_at == moment:
        import numpy as np

        hoard = []
        while True:
            hoard.append(np.ones(_STEP_BYTES, np.uint8))


def _hang() -> None:
    """Blocks for ever without the interpreter's lock, as native code does."""
    threading.Event().wait()


def _leave_process() -> None:
    if os.fork() == 0:
        with suppress(OSError):
            os.setsid()
        while True:
            signal.pause()


def _write_out(size: int) -> None:
    """Writes to descriptor 1 and not to Python's stdout, as a runtime's native code does."""
    while size > 0:
        size -= os.write(1, b"noise " * min(size // 6 + 1, 8192))


def _placement(model: NullModel) -> Placement | None:
    if not model.fallen:
        return None
    here = model.nodes - len(model.fallen)
    nodes = {NAME: here, ELSEWHERE: len(model.fallen)}
    return Placement(NAME, nodes, model.fallen, boundaries=2 * len(model.fallen))


def _wait_until(moment: float) -> None:
    """Sleeps most of the time and spins the rest, because a sleep alone ends late."""
    left = moment - time.perf_counter()
    if left > _SPIN_S:
        time.sleep(left - _SPIN_S)
    while time.perf_counter() < moment:
        pass


def _sizes(inputs: tuple[TensorInfo, ...], arrays: dict[str, Array]) -> dict[str, int]:
    return {
        dimension: size
        for info in inputs
        for dimension, size in zip(info.shape, arrays[info.name].shape, strict=False)
        if isinstance(dimension, str)
    }


def _output(model: NullModel, info: TensorInfo, sizes: dict[str, int], arrays: dict[str, Array]) -> Array:
    import numpy as np

    shape = tuple(d if isinstance(d, int) else sizes.get(d or "", 1) for d in info.shape)
    values = np.zeros(shape)
    if model.behaviour == "mix" and values.size:
        batch = next((d for d in info.shape[:1] if isinstance(d, str)), None)
        rows = values.reshape(1 if batch is None else shape[0], -1)
        places = np.arange(rows.shape[1])
        seed = sum(_seed(i, arrays[i.name], batch) for i in model.inputs)
        rows[:] = np.sin(places + seed)
        if model.noise:
            rows += model.noise * np.cos(7.0 * places)
    return _as_type(values, info.dtype)


def _seed(info: TensorInfo, array: Array, batch: str | None) -> Array:
    """Returns a number for each row of the batch, or one number if the input has no batch axis."""
    import numpy as np

    texts = info.dtype == "str"
    numbers = np.array([sum(t.encode()) for t in array.flat]).reshape(array.shape) if texts else array
    if not numbers.size:
        return np.zeros(1)
    rows = numbers.reshape(len(array) if batch is not None and batch in info.shape[:1] else 1, -1)
    return np.asarray(rows.mean(axis=1, keepdims=True, dtype=np.float64))


def _as_type(values: Array, dtype: str) -> Array:
    import numpy as np

    if dtype == "str":
        return np.array([f"{value:.6f}" for value in values.flat], dtype=object).reshape(values.shape)
    if dtype == "bool":
        return values > 0
    return (values if np.dtype(dtype).kind == "f" else np.abs(values) * 100).astype(dtype)


BACKEND = Backend(
    name=NAME,
    title="Null (runs anywhere, computes nothing real)",
    formats=(SUFFIX,),
    available=available,
    supports=supports,
    load=load,
    times=times,
    options=NullOptions,
)
