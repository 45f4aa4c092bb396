"""One or two models or bundles, measured in turns: `edgeopt bench`."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.bench.contest import Contender, enter, run_rounds, slice_ms, speedup
from edgeopt.bench.host import LocalHost
from edgeopt.bench.messages import Load, Memory
from edgeopt.bench.stats import Interval, verdict
from edgeopt.errors import TrialError
from edgeopt.events import Emit, Metric, Progress


class Measured(msgspec.Struct, frozen=True):
    """The latency and memory of one side."""

    subject: str
    runs: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    load_ms: float
    memory: Memory | None


class Duel(msgspec.Struct, frozen=True):
    sides: tuple[Measured, ...]
    speedup: Interval | None = None
    """How many times faster the first side is than the second."""
    verdict: str = ""


class Side(msgspec.Struct, frozen=True):
    """What takes part: a name to show and what a trial is to load."""

    name: str
    load: Load


def duel(sides: list[Side], rounds: int, emit: Emit) -> Duel:
    """Measures the sides in turns, in processes of their own; raises TrialError when one cannot run."""
    with tempfile.TemporaryDirectory(prefix="edgeopt-bench-") as folder, ExitStack() as stack:
        host = LocalHost(Path(folder))
        contenders = []
        for side in sides:
            emit(Progress("loading", side.name))
            contender = enter_side(host, side)
            stack.callback(contender.close)
            contenders.append(contender)
        run_rounds(contenders, 1, slice_ms(max(c.loaded.first_run_ms for c in contenders)))
        span_ms = slice_ms(max((c.slices_ms[-1] for c in contenders if c.slices_ms), default=1.0))
        for contender in contenders:
            contender.slices_ms.clear()
            contender.latencies_ms.clear()
        for done in range(rounds):
            emit(Progress("measuring", f"{len(contenders)} in turns", done, rounds))
            run_rounds(contenders, 1, span_ms, first=done)
            for contender in contenders:
                if contender.failure:
                    raise TrialError(
                        f"'{contender.name}' {contender.failure.rstrip('.')}.", "Its own runtime may say more."
                    )
                emit(Metric("latency_ms", contender.slices_ms[-1], contender.name))
        ratio = speedup(contenders[1], contenders[0]) if len(contenders) == 2 else None
        return Duel(tuple(_measured(c) for c in contenders), ratio, verdict(ratio) if ratio else "")


def enter_side(host: LocalHost, side: Side) -> Contender:
    """Starts and loads one side; raises TrialError with a sentence when it cannot run."""
    try:
        return enter(host, side.name, side.load)
    except TrialError as error:
        raise TrialError(
            f"'{side.name}' {error.message.rstrip('.')}.", "Check the file with `edgeopt verify` or its runtime."
        ) from None


def _measured(contender: Contender) -> Measured:
    p50, p90, p99 = (float(v) for v in np.percentile(contender.latencies_ms, [50, 90, 99]))
    return Measured(
        contender.name, len(contender.latencies_ms), p50, p90, p99, contender.loaded.load_ms, contender.memory
    )
