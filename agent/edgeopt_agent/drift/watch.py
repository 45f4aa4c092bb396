"""Drift of the serving release: learns from its first requests, and compares the last ones with them."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.fleet.records import ServerDrift
from edgeopt_agent.drift.comparison import Reference, Window, alarm_distance, reference_of
from edgeopt_agent.drift.figures import TensorFigures, TensorStatistic
from edgeopt_agent.drift.settings import DriftSettings

log = logging.getLogger(__name__)
CHECK_EVERY = 20
"""Requests from one comparison to the next."""
FEWEST = 50
"""Requests of the window before the first comparison."""
_SAVE_EVERY = 100
DriftState = Literal["learning", "normal", "alarm"]


class Learned(msgspec.Struct, frozen=True):
    of: TensorStatistic
    values: tuple[float, ...] = ()
    """Values of the requests so far, while the reference is learned."""
    reference: Reference | None = None
    """Learned distribution; None while it is learned."""


class SavedDrift(msgspec.Struct, frozen=True):
    """The drift data that survives a restart, as a file."""

    release: str
    requests: int
    reference_requests: int
    learned: tuple[Learned, ...]
    sizes: bool = False
    """Whether sizes of outputs were learned; a reference without them is not used."""


def text_of(saved: SavedDrift) -> str:
    """Returns the data as JSON, which is ASCII whatever the tensors are called."""
    return json.dumps(msgspec.to_builtins(saved))


class Alarm(msgspec.Struct, frozen=True):
    sentence: str
    since_s: float
    tensor: str = ""
    statistic: str = ""


class DriftWatch:
    def __init__(
        self,
        settings: DriftSettings,
        read: Callable[[], bytes] = lambda: b"",
        save: Callable[[SavedDrift], None] = lambda _: None,
        watched: Callable[[str], bool] = lambda _: True,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Takes functions that load and store data across restarts, and one that tells which releases to watch."""
        self.release = ""
        self.score = 0.0
        """The largest distance in the last comparison, over the one that is an alarm."""
        self.settings = settings
        self.on_change: Callable[[], None] = lambda: None
        """Called when an alarm begins or ends."""
        self._read, self._save, self._watched, self._now_s = read, save, watched, now_s
        self._requests = 0
        self._values: dict[TensorStatistic, list[float]] = {}
        self._windows: dict[TensorStatistic, Window] = {}
        self._in_window = self._since_check = self._quiet = 0
        self._drift: Alarm | None = None
        self._golden: Alarm | None = None

    @property
    def alarm(self) -> Alarm | None:
        return self._golden or self._drift

    def status(self, release: str) -> ServerDrift:
        """Returns the drift status of the release that serves."""
        self.follow(release)
        alarm, needed = self.alarm, self.settings.reference_requests
        learning: DriftState = "normal" if self._windows else "learning"
        if alarm is None:
            return ServerDrift(learning, release, self._requests, needed)
        details = alarm.tensor, alarm.statistic, alarm.since_s, alarm.sentence
        return ServerDrift("alarm", release, self._requests, needed, *details)

    def follow(self, release: str) -> None:
        """Forgets another release; reads what was learned of this one before a restart."""
        if release == self.release:
            return
        self.release, self.score, self._requests = release, 0.0, 0
        self._values, self._windows = {}, {}
        self._in_window = self._since_check = self._quiet = 0
        self._drift = self._golden = None
        try:
            saved = msgspec.json.decode(self._read(), type=thread_safe(SavedDrift))
        except (OSError, msgspec.DecodeError):
            return
        if any(each.reference is not None and not each.reference.sound for each in saved.learned):
            return
        if (
            not saved.sizes
            or saved.release != release
            or saved.reference_requests != self.settings.reference_requests
        ):
            return
        self._requests = saved.requests
        for each in saved.learned:
            if each.reference is not None:
                self._windows[each.of] = Window(each.reference, self.settings.window_requests)
            else:
                self._values[each.of] = list(each.values)

    def note(self, release: str, figures: Sequence[TensorFigures]) -> None:
        """Learns from the statistics of one request to this release, or compares them with the reference."""
        if not self._watched(release):
            return
        self.follow(release)
        numbers = {of: value for each in figures for of, value in each.numbers().items()}
        if self._windows:
            self._compare(numbers)
        else:
            self._learn(numbers)

    def note_golden(self, release: str, problem: str) -> None:
        """Records the result of the golden inputs; `problem` says what is wrong with the answers, if anything."""
        if not self._watched(release):
            return
        self.follow(release)
        before = self.alarm
        if not problem:
            self._golden = None
        elif self._golden is None:
            message = f"The answers to the golden inputs differ from the bundle's. {problem}"
            self._golden = Alarm(message, self._now_s(), statistic="golden")
        self._log(before)

    def _learn(self, numbers: dict[TensorStatistic, float]) -> None:
        for name, value in numbers.items():
            self._values.setdefault(name, []).append(value)
        self._requests += 1
        if self._requests >= self.settings.reference_requests:
            length = self.settings.window_requests
            self._windows = {
                name: Window(reference_of(values), length)
                for name, values in self._values.items()
                if len(values) >= FEWEST
            }
            self._values = {}
        if self._windows or self._requests % _SAVE_EVERY == 0:
            self._save(self._to_save())

    def _compare(self, numbers: dict[TensorStatistic, float]) -> None:
        for name, value in numbers.items():
            if (window := self._windows.get(name)) is not None:
                window.add(value)
        length = self.settings.window_requests
        self._in_window = min(self._in_window + 1, length)
        self._since_check += 1
        if self._since_check < CHECK_EVERY or self._in_window < FEWEST:
            return
        self._since_check = 0
        level = CHECK_EVERY / (self.settings.false_alarm_requests * len(self._windows))
        scores = {
            name: window.distance() / alarm_distance(window.reference.count, len(window), level)
            for name, window in self._windows.items()
            if len(window) >= FEWEST
        }
        if not scores:
            return
        worst = max(scores, key=lambda name: scores[name])
        self.score = scores[worst]
        self._judge(worst)

    def _judge(self, worst: TensorStatistic) -> None:
        before = self.alarm
        if self.score > 1.0:
            self._quiet = 0
            if self._drift is None:
                self._drift = Alarm(self._sentence(worst), self._now_s(), worst.tensor, worst.statistic)
        else:
            # A whole window without an alarm: on the edge it would come and go.
            self._quiet += CHECK_EVERY
            if self._quiet >= self.settings.window_requests:
                self._drift = None
        self._log(before)

    def _sentence(self, worst: TensorStatistic) -> str:
        window = self._windows[worst]
        return (
            f"{worst.title} has changed: its median is {window.median:.4g} over the last {len(window)} "
            f"requests, and was {window.reference.median:.4g} over the first {window.reference.count}."
        )

    def _log(self, before: Alarm | None) -> None:
        """Logs each change of the alarm once; the golden answers and the requests have different alarms."""
        alarm = self.alarm
        if alarm is not None and (before is None or before.since_s != alarm.since_s):
            log.warning("Release %s: drift. %s", self.release, alarm.sentence)
        elif alarm is None and before is not None:
            log.warning("Release %s: the drift is over.", self.release)
        if alarm != before:
            self.on_change()

    def _to_save(self) -> SavedDrift:
        learned = [Learned(name, tuple(values)) for name, values in self._values.items()]
        learned += [Learned(name, (), window.reference) for name, window in self._windows.items()]
        return SavedDrift(
            self.release, self._requests, self.settings.reference_requests, tuple(learned), sizes=True
        )
