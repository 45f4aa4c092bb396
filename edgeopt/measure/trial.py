"""A trial: one candidate in a process of its own (`python -m edgeopt.measure.trial`).

Reads one request a line, answers one line; ends when its stdin closes. See `messages`.
"""

import os
import time
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples, open_samples, write_archive
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.measure.instruments.counters import Counters, difference, open_counters
from edgeopt.measure.messages import (
    Answer,
    Describe,
    Described,
    Load,
    Loaded,
    Outputs,
    Placed,
    Places,
    Request,
    Saved,
    Staged,
    Time,
    Timed,
    TimeStages,
    Watch,
    decode_request,
)
from edgeopt.measure.serve import Answering, Failed, serve
from edgeopt.measure.trials.laps import Pace, time_slice
from edgeopt.measure.trials.memory import Phases, open_gauge
from edgeopt.measure.trials.openers import (
    Loads,
    Opener,
    answers,
    describe,
    in_batches,
    opener,
    time_stages,
    times_by_place,
)

# Enough different inputs that no cache can know them all; few enough to keep in memory.
ROTATION = 16
_MOST_BYTES = 256 << 20


def keep_to(cores: tuple[int, ...]) -> None:
    """All threads of this process, and all that they start; raises UsageError where that cannot be."""
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("This system cannot pin processes to cores.", "Leave out the cores and set threads only.")
    usable = os.sched_getaffinity(0)
    missing = sorted(set(cores) - usable)
    if missing:
        raise _refused(f"{_listed(missing)} cannot be used here; usable are {_listed(sorted(usable))}")
    try:
        # Libraries may have started threads while they were imported.
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
    except OSError as error:
        raise _refused(f"the system refused ({error.strerror})") from None


def _refused(why: str) -> EdgeoptError:
    return UsageError(f"The trial cannot be pinned to these cores: {why}.", "Choose others, or leave them out.")


def _listed(cores: list[int]) -> str:
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(map(str, cores))}"


class Trial:
    """The state between requests: what was loaded, and what it is given in turn."""

    def __init__(self) -> None:
        self.session: Loads | None = None
        self.opener: Opener | None = None
        self.samples: Samples | None = None
        self.phases = Phases()
        self.counters: Counters | None = None
        self.pace: Pace | None = None
        self.place = 0
        """In the rotation, where the next slice begins if samples differ in size."""

    def answer(self, request: Request) -> Answer:
        if isinstance(request, Load):
            return self._load(request)
        if isinstance(request, Describe):
            session = describe(request)
            return Described(session.inputs, session.outputs)
        if isinstance(request, TimeStages):
            return Staged(time_stages(Path(request.bundle_path), request.seconds))
        if isinstance(request, Places):
            return Placed(times_by_place(request.load))
        if self.session is None or self.opener is None:
            return Failed("The trial was asked to run before a model was loaded.", code=UsageError.code)
        if isinstance(request, Time):
            return self._time(self.session, self.opener, request)
        if isinstance(request, Watch):
            if self.pace is None or request.anew:
                self.pace = Pace(self.session.run, self.opener.turns)
            return self.pace.slice(request.slice_ms, request.interval_ms)
        if self.opener.no_outputs:
            return Failed(self.opener.no_outputs, code=UsageError.code)
        return self._outputs(self.session, request)

    def _load(self, request: Load) -> Answer:
        begin_s = time.monotonic()
        self.session = self.pace = None
        if request.cores:
            keep_to(request.cores)
        self.samples = open_samples(Path(request.samples_path))
        count = rotated(self.samples)
        # Copies, not views of the mapped file: a page fault is not the model's latency.
        rotation = [{n: np.array(a) for n, a in self.samples.feeds(k).items()} for k in range(count)]
        rotation = in_batches(rotation, request.batch)
        # They count the threads that are started after them.
        warnings = self._open_counters() if request.counters else ()
        phases = Phases()
        phases.end("start")
        import_s = time.monotonic()
        self.opener = opener(request, rotation)
        import_ms = (time.monotonic() - import_s) * 1e3
        phases.gauge = open_gauge(self.opener.backend)
        phases.end("import")
        if phases.sizes is not self.opener.sizes:  # another process does the work
            phases = Phases(self.opener.sizes)
        begin = time.perf_counter()
        session = self.opener.open()
        load_ms = (time.perf_counter() - begin) * 1e3
        phases.end("load")
        begin = time.perf_counter()
        session.run(self.opener.turns[0])
        first_run_ms = (time.perf_counter() - begin) * 1e3
        phases.end("first_run")
        warnings += self.opener.warnings(session)
        self.session, self.phases = session, phases
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
        """Why some events, or all, are not counted."""
        found = open_counters()
        if not isinstance(found, Counters):
            return (f"Hardware events are not counted: {found.reason}.",)
        self.counters = found
        reasons: dict[str, list[str]] = {}
        for name, reason in found.missing.items():
            reasons.setdefault(reason, []).append(name)
        return tuple(f"Not counted ({', '.join(names)}): {reason}." for reason, names in reasons.items())

    def _time(self, session: Loads, opened: Opener, request: Time) -> Answer:
        if request.concurrency > 1 and opened.no_threads:
            return Failed(opened.no_threads, code=UsageError.code)
        count = self.counters.read if self.counters else None
        # Slow runs would never come to the last sizes if every slice began with the first.
        place = self.place if self.samples is not None and self.samples.sizes else 0
        taken = time_slice(session.run, opened.turns, request.slice_ms, request.concurrency, count, place)
        self.place = taken.following
        self.phases.slice_ended()
        return Timed(
            taken.latencies_ms,
            self.phases.record(),
            taken.begin_s,
            taken.seconds,
            taken.starts_ms,
            difference(*taken.events),
            taken.first,
        )

    def _outputs(self, session: Loads, request: Outputs) -> Answer:
        assert self.samples is not None  # noqa: S101 - a loaded session has samples
        samples = [self.samples.feeds(k) for k in range(request.first, request.first + request.count)]
        runs = answers(session.run, samples, request.batch)
        arrays = {f"{position}/{name}": array for position, run in enumerate(runs) for name, array in run.items()}
        write_archive(Path(request.out_path), arrays)
        return Saved(request.out_path)


def rotated(samples: Samples) -> int:
    """How many samples are run in turn: each side has a copy of them, which must not fill the memory."""
    one = sum(array.nbytes // max(1, len(array)) for array in samples.arrays.values())
    return max(1, min(len(samples), ROTATION, _MOST_BYTES // max(1, one)))


def read_outputs(path: Path) -> list[dict[str, Array]]:
    """The outputs that a trial saved, one dict a sample."""
    runs: dict[int, dict[str, Array]] = {}
    with np.load(path, allow_pickle=False) as archive:
        for key in archive.files:
            position, name = key.split("/", 1)
            runs.setdefault(int(position), {})[name] = archive[key]
    return [runs[k] for k in sorted(runs)]


ANSWERING = Answering(decode_request, lambda: Trial().answer)

if __name__ == "__main__":
    serve(ANSWERING.lines())
