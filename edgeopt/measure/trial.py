"""The tasks of a trial: one candidate in a worker process; see `messages`."""

import importlib
import time
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples, open_samples, write_archive
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.measure.instruments.counters import Counters, difference, open_counters
from edgeopt.measure.messages import (
    Decode,
    Decoded,
    Generate,
    Generated,
    Load,
    Loaded,
    Outputs,
    Saved,
    Time,
    Timed,
    Unseen,
    UnseenRun,
    Watch,
    Watched,
)
from edgeopt.measure.trials.decoding import decode, generate
from edgeopt.measure.trials.laps import Pace, time_slice
from edgeopt.measure.trials.memory import Phases, open_gauge
from edgeopt.measure.trials.openers import Loads, Opener, answers, in_batches, opener
from edgeopt.measure.trials.unseen import run_unseen
from edgeopt.platform.processes import pin_all_threads, usable_cores

# Enough different inputs that the CPU's caches do not hold all of them; few enough to keep in memory.
ROTATION = 16
_MAX_BYTES = 256 << 20


def keep_to(cores: tuple[int, ...]) -> None:
    """Pins all threads of this process, and those that they start, to cores; raises UsageError if it cannot."""
    usable = usable_cores()
    if usable is None:
        raise UsageError("This system cannot pin processes to cores.", "Leave out the cores and set threads only.")
    missing = sorted(set(cores) - usable)
    if missing:
        raise _refused(f"{_listed(missing)} cannot be used here; usable are {_listed(sorted(usable))}")
    try:
        # Libraries may have started threads while they were imported.
        pin_all_threads(cores)
    except OSError as error:
        raise _refused(f"the system refused ({error.strerror})") from None


def _refused(why: str) -> EdgeoptError:
    return UsageError(f"The trial cannot be pinned to these cores: {why}.", "Choose others, or leave them out.")


def _listed(cores: list[int]) -> str:
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(map(str, cores))}"


class Trial:
    """The state between requests: the loaded model, and the samples that it runs in rotation."""

    def __init__(self) -> None:
        self._loaded: tuple[Loads, Opener, Samples] | None = None
        self._phases = Phases()
        self._counters: Counters | None = None
        self._pace: Pace | None = None
        self._place = 0
        """Index in the rotation where the next slice begins if samples differ in size."""

    def _model(self) -> tuple[Loads, Opener, Samples]:
        if self._loaded is None:
            raise UsageError("The trial was asked to run before a model was loaded.")
        return self._loaded

    def watch(self, request: Watch) -> Watched:
        session, opened, _ = self._model()
        if self._pace is None or request.anew:
            self._pace = Pace(session.run, opened.turns)
        return self._pace.slice(request.slice_ms, request.interval_ms)

    def load(self, request: Load) -> Loaded:
        begin_s = time.monotonic()
        self._loaded = self._pace = None
        if request.cores:
            keep_to(request.cores)
        samples = open_samples(Path(request.samples_path))
        count = rotated(samples)
        # Copies, not views of the mapped file: a page fault is not the model's latency.
        rotation = [{n: np.array(a) for n, a in samples.feeds(k).items()} for k in range(count)]
        rotation = in_batches(rotation, request.batch)
        # Counters include only the threads that are started after them.
        warnings = self._open_counters() if request.counters else ()
        phases = Phases()
        import_s = time.monotonic()
        opened = opener(request, rotation)
        phases.end("start")
        if opened.package is not None:
            importlib.import_module(opened.package)
        import_ms = (time.monotonic() - import_s) * 1e3
        phases.gauge = open_gauge(opened.backend)
        phases.end("import")
        if phases.sizes is not opened.sizes:  # another process does the work
            phases = Phases(opened.sizes)
        begin = time.perf_counter()
        session = opened.open()
        load_ms = (time.perf_counter() - begin) * 1e3
        phases.end("load")
        begin = time.perf_counter()
        session.run(opened.turns[0])
        first_run_ms = (time.perf_counter() - begin) * 1e3
        phases.end("first_run")
        warnings += opened.warnings(session)
        self._loaded, self._phases = (session, opened, samples), phases
        return Loaded(
            session.inputs,
            session.outputs,
            load_ms,
            first_run_ms,
            phases.record(),
            placement=getattr(session, "placement", None),
            import_ms=import_ms,
            begin_s=begin_s,
            warnings=warnings,
        )

    def _open_counters(self) -> tuple[str, ...]:
        """Opens the counters and returns warnings about events that are not counted."""
        found = open_counters()
        if not isinstance(found, Counters):
            return (f"Hardware events are not counted: {found.reason}.",)
        self._counters = found
        reasons: dict[str, list[str]] = {}
        for name, reason in found.missing.items():
            reasons.setdefault(reason, []).append(name)
        return tuple(f"Not counted ({', '.join(names)}): {reason}." for reason, names in reasons.items())

    def time(self, request: Time) -> Timed:
        session, opened, samples = self._model()
        if request.concurrency > 1 and opened.no_threads:
            raise UsageError(opened.no_threads)
        count = self._counters.read if self._counters else None
        # If every slice began with the first sample, slow runs would never reach the last sizes.
        place = self._place if samples.sizes else 0
        taken = time_slice(session.run, opened.turns, request.slice_ms, request.concurrency, count, place)
        self._place = taken.following
        self._phases.slice_ended()
        return Timed(
            taken.latencies_ms,
            self._phases.record(),
            taken.begin_s,
            taken.seconds,
            taken.starts_ms,
            difference(*taken.events),
            taken.first,
        )

    def save_outputs(self, request: Outputs) -> Saved:
        session, opened, known = self._model()
        if opened.no_outputs:
            raise UsageError(opened.no_outputs)
        samples = [known.feeds(k) for k in range(request.first, request.first + request.count)]
        runs = answers(session.run, samples, request.batch)
        arrays = {f"{position}/{name}": array for position, run in enumerate(runs) for name, array in run.items()}
        write_archive(Path(request.out_path), arrays)
        return Saved(request.out_path)

    def unseen(self, request: Unseen) -> UnseenRun:
        session, opened, samples = self._model()
        return run_unseen(session, opened, samples, request)

    def decode(self, request: Decode) -> Decoded:
        return decode(self._model()[0], request)

    def generate(self, request: Generate) -> Generated:
        first_tokens_ms, tokens_ms = generate(self._model()[0], request)
        self._phases.slice_ended()
        return Generated(first_tokens_ms, tokens_ms, self._phases.record())


def rotated(samples: Samples) -> int:
    """Returns the number of samples to run in rotation, limited because each side copies them into memory."""
    one = sum(array.nbytes // max(1, len(array)) for array in samples.arrays.values())
    return min(len(samples), max_rotated(one))


def max_rotated(sample_bytes: int) -> int:
    """Returns the largest number of samples of this size that run in rotation."""
    return max(1, min(ROTATION, _MAX_BYTES // max(1, sample_bytes)))


def read_outputs(path: Path) -> list[dict[str, Array]]:
    """Returns the outputs that a trial saved, one dict a sample."""
    runs: dict[int, dict[str, Array]] = {}
    with np.load(path, allow_pickle=False) as archive:
        for key in archive.files:
            position, name = key.split("/", 1)
            runs.setdefault(int(position), {})[name] = archive[key]
    return [runs[k] for k in sorted(runs)]
