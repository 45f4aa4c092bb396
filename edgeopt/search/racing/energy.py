"""A search for the least energy: the device's meter, and interleaved runs long enough for it."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np

from edgeopt.errors import MissingError
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import Unavailable
from edgeopt.measure.contender import Contender, take_slice
from edgeopt.measure.instruments.energy import EnergyMeter, energy
from edgeopt.measure.rounds import DeviceWatch, slice_ms, take_turns
from edgeopt.measure.terms import METERED, METERED_FINAL, Turns
from edgeopt.search.objectives import ENERGY, Objective

# Longer than this nobody would wait for each of many candidates; a battery's gauge needs a minute.
_LONGEST_S = 2.0
_HINT = (
    "Search for latency instead, which usually saves energy too. Energy needs readable RAPL "
    "counters, a power meter on the board, or an NVIDIA GPU."
)
_FINALISTS = 6
_ON_NVIDIA = ("-cuda", "-tensorrt")


def open_meter(objective: Objective, backends: Sequence[str], stack: ExitStack) -> EnergyMeter | None:
    """Before the long work; MissingError where the device does not tell its energy, or not quickly enough."""
    if objective.name != ENERGY:
        return None
    nvidia = any(name.endswith(_ON_NVIDIA) for name in backends)
    meter = EnergyMeter.open(gpus=[0] if nvidia else [])
    if isinstance(meter, Unavailable):
        raise MissingError(f"The energy of a run cannot be measured here: {meter.reason}.", _HINT)
    stack.callback(meter.close)
    if _span_s(meter) > _LONGEST_S:
        raise MissingError(
            f"The meter here ({meter.source}) is too slow for a search: it needs {meter.resolution_s:g} s "
            "of one candidate without interruption.",
            "Search for latency, and compare the energy of two models with: edgeopt bench A --against B "
            "--duty sustained",
        )
    return meter


def meter_all(
    meter: EnergyMeter,
    contenders: Sequence[Contender],
    emit: Emit,
    turns: Turns = METERED,
    until: float = math.inf,
) -> None:
    """What a run of each takes, in stretches by turns; the first round is run however late it is."""

    def tell(number: int, _count: int) -> None:
        emit(Progress("metering", f"{len(contenders)} interleaved", number, turns.most))

    def stretch(contender: Contender) -> float | None:
        return _joules(meter, contender)

    watch = DeviceWatch(before=tell)
    for each in take_turns(contenders, turns, stretch, watch, is_late=lambda: time.monotonic() >= until):
        for contender, joules in each.taken:
            contender.joules.append(joules)


def meter_field(meter: EnergyMeter, contenders: Sequence[Contender], emit: Emit, until: float) -> frozenset[int]:
    """A few stretches of each, then more of those with the least; these (by `id`) compare with each other."""
    meter_all(meter, contenders, emit, until=until)
    known = sorted((c for c in contenders if c.joules), key=lambda c: float(np.median(c.joules)))[:_FINALISTS]
    if time.monotonic() < until:
        for contender in known:
            contender.joules.clear()
        meter_all(meter, known, emit, METERED_FINAL, until)
    return frozenset(map(id, known))


def _joules(meter: EnergyMeter, contender: Contender) -> float | None:
    """Of a run; None where the meter or the contender gave nothing."""
    span_ms = max(1e3 * _span_s(meter), slice_ms(contender.run_ms or contender.loaded.first_run_ms))
    before, begin_s = meter.joules(), time.monotonic()
    answer = take_slice(contender, span_ms)
    after, wall_s = meter.joules(), time.monotonic() - begin_s
    if answer is None or before is None or after is None or not answer.seconds:
        return None
    return energy(meter, after - before, wall_s, len(answer.latencies_ms) / answer.seconds).joules_per_run


def _span_s(meter: EnergyMeter) -> float:
    return 2 * meter.resolution_s
