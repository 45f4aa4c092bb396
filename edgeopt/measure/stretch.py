"""Energy of a side whose slices are too short for the meter: one longer stretch, for energy alone."""

import time

import msgspec

from edgeopt.errors import TrialError
from edgeopt.measure.instruments.energy import EnergyMeter, energy
from edgeopt.measure.messages import Time, Timed
from edgeopt.measure.report import SideReport
from edgeopt.measure.tally import Tally

# Longer than this for each side nobody would wait after the answer is there; a battery's gauge needs a minute.
_LONGEST_S = 5.0


def with_energy(side: SideReport, tally: Tally) -> SideReport:
    """The report with the energy of a longer stretch, where its slices gave none and the meter is quick enough.

    What goes wrong in it takes nothing from what was measured before.
    """
    meter, contender = tally.meter, tally.contender
    if not isinstance(meter, EnergyMeter) or contender is None or side.failure or not side.slices:
        return side
    told = side.energy is None or side.energy.joules_per_run is not None
    too_short = min(each.seconds for each in side.slices) < meter.resolution_s
    span_s = 2 * meter.resolution_s
    if told or not too_short or span_s > _LONGEST_S:
        return side
    before, begin_s = meter.joules(), time.monotonic()
    try:
        wanted = Time(1e3 * span_s, contender.concurrency)
        answer = tally.gauges.ask(contender.child, wanted, tally.patience_s, side.name)
    except TrialError:
        return side
    after, wall_s = meter.joules(), time.monotonic() - begin_s
    if not isinstance(answer, Timed) or not answer.latencies_ms or not answer.seconds:
        return side
    drawn = None if before is None or after is None else after - before
    found = energy(meter, drawn, wall_s, len(answer.latencies_ms) / answer.seconds)
    return msgspec.structs.replace(side, energy=found)
