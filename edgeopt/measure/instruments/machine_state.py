"""The state of the device during each round of a contest: clock, temperature, other load, steal, throttling.

A value that the device does not report is None, with its reason in `StateSampler.unavailable`; docs/measuring.md
has the thresholds above which a round counts as taken in a bad state.
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from edgeopt.hw import cgroup, processes, sensors, thermal
from edgeopt.hw.host import Host, LocalHost
from edgeopt.measure.report import RoundState
from edgeopt.measure.stats import total

OTHERS_PERCENT = 15.0
STEAL_PERCENT = 5.0
CLOCK_FALL_PERCENT = 10.0
# The kernel counts in ticks of 10 ms, rounded down by process and field: a difference this small may be
# rounding.
_ROUNDING_TICKS = 3
_FEWEST_TICKS = 5
# A shorter round is judged together with those just before it: over 45 ms, rounding alone would hide all but
# processes that take half of the cores.
_WINDOW_S = 0.5
_FEWEST_CLOCKS = 3
_TICKS_A_SECOND = 100  # USER_HZ of the kernel's interfaces; converts seconds of other systems


class _Cores(NamedTuple):
    """Use of the cores since boot, in ticks."""

    total: float
    busy: float
    """Ticks in use, without those stolen by the hypervisor."""
    stolen: float | None
    own: float | None
    """Part of `busy` used by edgeopt and its trials."""


class _Counted(NamedTuple):
    """Differences between two readings of the cores, in ticks."""

    total: float
    others: float | None
    """Ticks of other processes than edgeopt and its trials; negative if those of trials were reported late."""
    stolen: float | None

    def others_percent(self, rounding: int = 0) -> float | None:
        return self._percent(self.others, rounding)

    def steal_percent(self, rounding: int = 0) -> float | None:
        return self._percent(self.stolen, rounding)

    def _percent(self, ticks: float | None, rounding: int) -> float | None:
        if ticks is None or self.total < _FEWEST_TICKS:
            return None
        return min(100.0, max(0.0, 100 * (ticks - rounding) / self.total))


class _Before(NamedTuple):
    begin_s: float
    cores: _Cores | None
    throttles: dict[str, int]
    throttled_us: int | None


def _counted(before: _Cores, now: _Cores) -> _Counted:
    known = before.own is not None and now.own is not None
    return _Counted(
        now.total - before.total,
        (now.busy - before.busy) - max(0.0, (now.own or 0.0) - (before.own or 0.0)) if known else None,
        max(0.0, now.stolen - before.stolen) if before.stolen is not None and now.stolen is not None else None,
    )


def _share(
    name: Literal["others_percent", "steal_percent"],
    this: _Counted,
    window: _Counted,
    rounding: int,
    maximum: float,
) -> tuple[float | None, bool]:
    """Returns the share in percent, and whether it is over `maximum` even after rounding by the kernel.

    A window can be bad because of earlier rounds, so this round must look bad as well.
    """
    seen, around = getattr(this, name), getattr(window, name)
    if (sure := seen(rounding)) is not None and sure > maximum:
        return seen(), True
    of_this, of_window = seen(), around(rounding)
    bad = of_window is not None and of_window > maximum and (of_this is None or of_this > maximum)
    return around(), bad


class StateSampler:
    """Sampler of the device at the begin and the end of each round; it looks up the files to read only once.

    `own_pids` are the processes that the contest started; they, this process, and all that descend from them are
    not "others". `judge_others=False`: the load of others is reported but spoils no round; for models whose
    server is one of them.
    """

    def __init__(
        self, own_pids: Callable[[], Sequence[int]], host: Host | None = None, *, judge_others: bool = True
    ) -> None:
        self.unavailable: dict[str, str] = {}
        """Reasons for fields of `RoundState` that this device does not report; filled by the first round."""
        self._own_pids, self.judge_others = own_pids, judge_others
        self._host = host or LocalHost(cache_folder=None)
        self._clock_files = sensors.clock_files(self._host)
        self._sensors = sensors.temperature_files(self._host)
        self._limits = thermal.limits(self._host)
        self._cooling = thermal.cooling_files(self._host)
        self._quota_files = cgroup.throttling_files(self._host)
        self._clocks_hz: list[float] = []
        self._number = 0
        self._before = _Before(0.0, None, {}, None)
        self._window: deque[tuple[float, _Counted]] = deque()
        """Duration in seconds and counts of the latest rounds."""

    def begin_round(self, number: int) -> None:
        self._number = number
        cores, throttles = self._cores(), thermal.x86_counts(self._host)
        throttled_us = cgroup.throttled_us(self._host, self._quota_files)
        self._before = _Before(time.monotonic(), cores, throttles, throttled_us)

    def end_round(self) -> RoundState:
        before, end_s = self._before, time.monotonic()
        others, steal, busy_words = self._shares(before.cores, self._cores(), end_s - before.begin_s)
        clock = sensors.mean_clock_hz(self._host, self._clock_files)
        degrees = [read for path in self._sensors if (read := sensors.temperature_c(self._host, path)) is not None]
        throttled_us = cgroup.throttled_us(self._host, self._quota_files)
        state = RoundState(
            round=self._number,
            begin_s=before.begin_s,
            seconds=end_s - before.begin_s,
            clock_hz=clock,
            temperature_c=max(degrees, default=None),
            others_percent=others,
            steal_percent=steal,
            held_up_ms=None
            if throttled_us is None or before.throttled_us is None
            else max(0, throttled_us - before.throttled_us) / 1e3,
            bad=(*busy_words, *self._clock_words(clock), *self._heat_words(before.throttles)),
        )
        self._explain(state)
        return state

    def _cores(self) -> _Cores | None:
        this = self._host.call("os", "getpid")
        pids = dict.fromkeys([*([this] if isinstance(this, int) else []), *self._own_pids()])
        ticks = sensors.cpu_ticks(self._host)
        if ticks is not None:
            own = processes.family_ticks(self._host, pids)
            return _Cores(ticks.total, ticks.total - ticks.idle - ticks.stolen, ticks.stolen, own)
        answer = self._host.call("psutil", "cpu_times")
        if not isinstance(answer, dict) or not isinstance(answer.get("idle"), int | float):
            return None
        total_s = sum(v for k, v in answer.items() if isinstance(v, int | float) and not k.startswith("guest"))
        own_s = self._host.call("edgeopt.hw.processes", "family_seconds", *pids)
        return _Cores(
            total_s * _TICKS_A_SECOND,
            (total_s - answer["idle"]) * _TICKS_A_SECOND,
            None,
            own_s * _TICKS_A_SECOND if isinstance(own_s, int | float) else None,
        )

    def _shares(
        self, before: _Cores | None, now: _Cores | None, seconds: float
    ) -> tuple[float | None, float | None, tuple[str, ...]]:
        """Returns the percentages of other processes and the hypervisor, with sentences on those over a limit."""
        if before is None or now is None:
            return None, None, ()
        this = _counted(before, now)
        window = self._look_back(seconds, this)
        others, others_bad = _share("others_percent", this, window, _ROUNDING_TICKS, OTHERS_PERCENT)
        steal, steal_bad = _share("steal_percent", this, window, 1, STEAL_PERCENT)
        words = []
        if others_bad and self.judge_others:
            words.append(f"Other processes took {others:.0f} % of the cores.")
        if steal_bad:
            words.append(f"The hypervisor took {steal:.0f} % of the cores' time for other virtual machines.")
        return others, steal, tuple(words)

    def _look_back(self, seconds: float, this: _Counted) -> _Counted:
        """Returns the counts of this round together with enough earlier rounds to fill the window."""
        self._window.append((seconds, this))
        while sum(took for took, _ in list(self._window)[1:]) >= _WINDOW_S:
            self._window.popleft()
        counted = [each for _, each in self._window]
        return _Counted(
            sum(each.total for each in counted),
            total([each.others for each in counted]),
            total([each.stolen for each in counted]),
        )

    def _clock_words(self, clock_hz: float | None) -> tuple[str, ...]:
        if clock_hz is None:
            return ()
        usual = statistics.median(self._clocks_hz) if len(self._clocks_hz) >= _FEWEST_CLOCKS else clock_hz
        self._clocks_hz.append(clock_hz)
        fall = 100 * (1 - clock_hz / usual)
        if fall <= CLOCK_FALL_PERCENT:
            return ()
        return (
            f"The clock fell to {clock_hz / 1e9:.2f} GHz, {fall:.0f} % below the median of the rounds before.",
        )

    def _heat_words(self, throttles_before: dict[str, int]) -> tuple[str, ...]:
        found = thermal.throttling(self._host, self._cooling)
        words = [f"Throttled: {each}." for each in found.now] if found else []
        for part, count in thermal.x86_counts(self._host).items():
            if count > throttles_before.get(part, count):
                words.append(f"Throttled: the {part} was too hot.")
        words += [
            f"{zone.zone} was at {zone.temperature_c:.0f} °C; the device throttles it from {zone.limit_c:.0f} °C."
            for zone in thermal.hot(self._host, self._limits)
        ]
        return tuple(words)

    def _explain(self, state: RoundState) -> None:
        cores = self._before.cores
        reasons = {
            "clock_hz": "the kernel's cpufreq files could not be read"
            if self._clock_files
            else "the kernel shows no cpufreq, as in most virtual machines",
            "temperature_c": "no sensor of the CPU or the chip gives a plausible number"
            if self._sensors
            else "the kernel shows no sensor of the CPU or the chip",
            "others_percent": "neither /proc/stat nor psutil reports how busy the cores were"
            if cores is None
            else "the system does not report the CPU time of this process"
            if cores.own is None
            else "the round was shorter than the resolution of the kernel's clock",
            "steal_percent": "this system does not report the time taken by a hypervisor"
            if cores is None or cores.stolen is None
            else "the round was shorter than the resolution of the kernel's clock",
            "held_up_ms": "there is no CPU quota",
        }
        self.unavailable = {name: reason for name, reason in reasons.items() if getattr(state, name) is None}


# The beginning of each kind of reason in `RoundState.bad`, and its wording in a summary.
_KINDS = (
    ("Other processes", "other processes were busy"),
    ("The hypervisor", "the hypervisor took time"),
    ("The clock fell", "the clock had fallen"),
    ("Throttled", "the device was throttled"),
    ("", "the device was near its temperature limit"),
)


def sentence(states: Sequence[RoundState], judge_others: bool = True) -> str:
    """Describes the state of the device over the rounds: that it was quiet, or the faults and their rounds."""
    if not states:
        return ""
    bad = [state for state in states if state.bad]
    known = _ranges([state for state in states if not state.repeated] or states)
    details = f" ({', '.join(known)})" if known else ""
    judged = any(each is not None for state in states for each in (state.others_percent, state.clock_hz))
    if not bad:
        if not judged:
            return "Measured without information about other load: none is reported, or rounds are too short."
        if not judge_others:
            return f"Measured without judging other load{details}, because a server is measured."
        busiest = max((state.others_percent or 0.0 for state in states if not state.repeated), default=0.0)
        if busiest > OTHERS_PERCENT:
            return f"Measured while other processes may have been busy, in rounds too short to tell{details}."
        return f"Measured while the device was quiet{details}."
    kinds = dict.fromkeys(_kind(words) for state in bad for words in state.bad)
    repeated = sum(state.repeated for state in bad)
    if repeated == len(bad):
        fate = "repeated, and they do not count" if repeated > 1 else "repeated, and it does not count"
    elif repeated:
        fate = f"{repeated} repeated and left out, {len(bad) - repeated} counted"
    else:
        fate = "they count" if len(bad) > 1 else "it counts"
    return (
        f"Measured while {' and '.join(kinds)} in {len(bad)} of {len(states)} rounds ({fate}); "
        f"counted rounds: {', '.join(known) or 'nothing known'}."
    )


def _kind(words: str) -> str:
    return next(summary for begin, summary in _KINDS if words.startswith(begin))


def _ranges(states: Sequence[RoundState]) -> list[str]:
    """Returns the range of each known value over these rounds, as text."""
    found = []
    if others := [s.others_percent for s in states if s.others_percent is not None]:
        found.append(f"others took {_span(others)} % of the cores")
    if (steal := [s.steal_percent for s in states if s.steal_percent is not None]) and max(steal) >= 0.5:
        found.append(f"the hypervisor {_span(steal)} %")
    if clocks := [s.clock_hz / 1e9 for s in states if s.clock_hz is not None]:
        found.append(f"clock {_span(clocks, 2)} GHz")
    if degrees := [s.temperature_c for s in states if s.temperature_c is not None]:
        found.append(f"{_span(degrees)} °C")
    if (held := sum(s.held_up_ms or 0 for s in states)) >= 1:
        found.append(f"throttled by the CPU quota for {held / 1000.0:.2g} s")
    return found


def _span(values: Sequence[float], digits: int = 0) -> str:
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
