"""The sides of a contest as requested, and the contenders: their loaded trials."""

from contextlib import suppress
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from edgeopt.backends.plugin import plugin_of
from edgeopt.errors import BundleError, TrialError
from edgeopt.measure.messages import (
    Answer,
    Load,
    Loaded,
    Memory,
    Outputs,
    Saved,
    Time,
    Timed,
    decode_answer,
)
from edgeopt.platform.command_line import quote_word
from edgeopt.workers.client import read_answer as read_worker_answer
from edgeopt.workers.host import Child, TrialHost
from edgeopt.workers.protocol import Failed

SLOWEST_ANSWER_S = 60.0
PLUGIN_ANSWER_S = 10.0
"""Longest wait for an answer of a plug-in's backend, short so that a hang costs a search little time."""
ACCELERATOR_LOAD_S = 900.0
"""Longest loading time on an accelerator, whose engine may take minutes to build."""
_ACCELERATORS = ("cuda", "tensorrt", "gpu", "npu", "qnn", "coreml", "directml")
# Compilers for CPUs read, rewrite and pack weights: slow devices do some MiB a second.
_LOAD_S_A_BYTE = 0.15 / 2**20
# Enough runs for percentiles of the latest ones.
_KEPT_RUNS = 20_000
_KEPT_SLICES = 200


class Side(msgspec.Struct, frozen=True):
    """A side of a contest: the name to show and what its trial loads."""

    name: str
    load: Load
    subject: str = ""
    """The model, bundle, program or address; empty if it is the same as the name."""
    kind: Literal["model", "bundle", "command", "url"] = "model"
    concurrency: int = 1
    """The number of threads that call the session."""
    same_as_first: bool = False
    """Whether the first side runs the same model and runtime with the same options: nothing is compared."""


@dataclass(slots=True)
class Contender:
    """A loaded trial in a contest, with a figure for each of its slices: mostly the median latency."""

    name: str
    child: Child
    loaded: Loaded
    slices_ms: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    """The single latencies of the last slices, for percentiles."""
    memory: Memory | None = None
    failure: str | None = None
    error: TrialError | None = None
    """The failure with its hint and code."""
    concurrency: int = 1
    batch: int = 1
    by_sample: bool = False
    """Whether a slice's figure is its time per sample (the inverse of throughput) instead of the time of a run."""
    laps: list[tuple[int, tuple[float, ...]]] = field(default_factory=list)
    """The latencies of each slice, with the place in the rotation of samples at which they begin."""
    run_ms: float = 0.0
    """The median latency of a run in the latest slice."""
    joules: list[float] = field(default_factory=list)
    """Energy of the device for each run, in joules, by metered stretch."""
    is_of_plugin: bool = False
    """Whether the backend belongs to a plug-in."""

    def patience_s(self, runs: int) -> float:
        """Returns the time that a number of runs may take before the trial counts as hung."""
        min_s = PLUGIN_ANSWER_S if self.is_of_plugin else SLOWEST_ANSWER_S
        return max(min_s, 4 * runs * self.loaded.first_run_ms / 1e3)

    def turn(self, span_ms: float) -> float | None:
        """Runs one time slice and returns its figure in milliseconds, or None if it failed."""
        answer = take_slice(self, span_ms)
        return None if answer is None else figure_ms(self, answer)

    def keep(self, _number: int, figure: float) -> None:
        self.slices_ms.append(figure)

    def close(self) -> None:
        self.child.close()


def load_patience_s(load: Load) -> float:
    """Returns the longest time for loading before the trial counts as hung, by backend and size of the model."""
    path = Path(load.model_path)
    backend = load.backend
    if backend == "bundle":
        from edgeopt.bundle.deployment import FILE, read_deployment

        # A bundle that cannot be read is reported by the trial.
        with suppress(BundleError):
            backend = read_deployment(path / FILE).run.backend
    if any(word in backend for word in _ACCELERATORS):
        return ACCELERATOR_LOAD_S
    return max(SLOWEST_ANSWER_S, min(ACCELERATOR_LOAD_S, _LOAD_S_A_BYTE * _size_bytes(path)))


def _size_bytes(path: Path) -> int:
    """Returns the size of a bundle, or of a model with its weight files; 0 if there is no such file."""
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return sum(f.stat().st_size for f in path.parent.glob(f"{escape(path.stem)}*")) if path.is_file() else 0
    except OSError:
        return 0


def how_to_check(side: Side) -> str:
    """Returns a hint for a side that failed without one."""
    place = quote_word(side.subject or side.load.model_path)
    if side.load.backend == "bundle":
        return f"Check the bundle: edgeopt verify {place}"
    if side.load.backend in {"command", "url"}:
        return "Check that it runs by itself."
    return f"Check the model: edgeopt analyze {place}"


def enter(
    host: TrialHost, name: str, load: Load, timeout_s: float | None = None, concurrency: int = 1
) -> Contender:
    """Starts a trial and loads its model; raises TrialError with the reason if loading fails.

    `timeout_s` defaults to `load_patience_s(load)`.
    """
    child = host.start()
    try:
        child.send(msgspec.json.encode(load))
        return entered(child, name, load, load_patience_s(load) if timeout_s is None else timeout_s, concurrency)
    except BaseException:
        child.close()
        raise


def entered(child: Child, name: str, load: Load, timeout_s: float, concurrency: int) -> Contender:
    """Waits until a trial has loaded what it was sent; raises TrialError with the reason if it cannot."""
    answer = read_answer(child, timeout_s)
    if not isinstance(answer, Loaded):
        raise failed(answer)
    return Contender(
        *(name, child, answer),
        memory=answer.memory,
        concurrency=concurrency,
        batch=load.batch,
        is_of_plugin=bool(plugin_of(load.backend)),
    )


def enter_side(host: TrialHost, side: Side, timeout_s: float | None = None) -> Contender:
    """Starts and loads one side; raises TrialError with a sentence if it cannot run."""
    try:
        return enter(host, side.name, side.load, timeout_s, side.concurrency)
    except TrialError as error:
        raise TrialError(
            f"'{side.name}' {error.message.rstrip('.')}.",
            error.hint or how_to_check(side),
            error.code,
            error.ending,
        ) from None


def ask(child: Child, request: msgspec.Struct, timeout_s: float = SLOWEST_ANSWER_S) -> Answer:
    """Sends one request and returns its answer; raises TrialError, with the trial ended, if none can be read."""
    child.send(msgspec.json.encode(request))
    return read_answer(child, timeout_s)


def read_answer(child: Child, timeout_s: float) -> Answer:
    """Returns the answer to the request that was sent before."""
    answer: Answer = read_worker_answer(child, decode_answer, timeout_s)
    return answer


def take_slice(contender: Contender, span_ms: float) -> Timed | None:
    """Runs one time slice; returns None, and records the failure, if the contender crashed, hung or failed."""
    try:
        answer = ask(contender.child, Time(span_ms, contender.concurrency), contender.patience_s(2))
    except TrialError as error:
        contender.failure, contender.error = error.message, error
        return None
    return accept(contender, answer)


def accept(contender: Contender, answer: Answer) -> Timed | None:
    """Records the measurements of a slice; returns None, and records the failure, if the answer holds none."""
    if not isinstance(answer, Timed) or not answer.latencies_ms:
        contender.error = failed(answer)
        contender.failure = contender.error.message
        return None
    contender.latencies_ms = [*contender.latencies_ms, *answer.latencies_ms][-_KEPT_RUNS:]
    contender.laps = [*contender.laps, (answer.first, answer.latencies_ms)][-_KEPT_SLICES:]
    contender.memory = answer.memory
    contender.run_ms = float(np.median(answer.latencies_ms))
    return answer


def figure_ms(contender: Contender, answer: Timed) -> float:
    """Returns the figure of a slice, in milliseconds per run or per sample; less is better."""
    if not contender.by_sample:
        return contender.run_ms
    return 1e3 * answer.seconds / (len(answer.latencies_ms) * contender.batch)


def save_outputs(
    contender: Contender, first: int, count: int, out_path: str, timeout_s: float, batch: int = 1
) -> None:
    """Has a contender run samples and save their outputs; raises TrialError with the reason if it cannot."""
    answer = ask(contender.child, Outputs(first, count, out_path, batch), timeout_s)
    if not isinstance(answer, Saved):
        raise failed(answer)


def failed(answer: Answer) -> TrialError:
    """Returns the error for an unexpected answer, with the trial's own hint and code if there are any."""
    hint, code = (answer.hint, answer.code) if isinstance(answer, Failed) else ("", "")
    return TrialError(f"failed: {reason(answer)}", hint, code)


def reason(answer: Answer) -> str:
    if isinstance(answer, Timed):
        return "it answered with no run at all"
    return answer.message if isinstance(answer, Failed) else f"unexpected answer {type(answer).__name__}"
