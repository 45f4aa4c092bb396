"""Everything that was told while something was watched: samples by metric, and what happened when."""

from dataclasses import dataclass
from datetime import UTC, datetime

from edgeopt.events import Metric
from edgeopt_gui.pages.live.runs import Runs
from edgeopt_gui.plots.ring import CAPACITY, Floats, Ring
from edgeopt_gui.plots.spec import Marker

# A smaller difference between the clocks of two machines is normal and is not corrected.
_CLOCKS_DIFFER_S = 2.0
_GAP_S, _GAP_INTERVALS = 3.0, 4.0
_MAX_MARKERS = 500
# A newer agent may send more metrics than this version draws, but memory is bounded.
_MAX_METRICS = 24


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of the samples for use in another thread."""

    columns: dict[str, tuple[Floats, Floats]]
    markers: tuple[Marker, ...]


class History:
    """The metrics received; `rings` are what a chart draws."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.rings: dict[str, Ring] = {}
        self.runs = Runs()
        """The runs of the present watch."""
        self.latest: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.markers: list[Marker] = []
        self.last_s: float | None = None
        """Time of the newest sample by this machine's clock, in seconds since 1970; None without samples."""
        self.clock_off_s = 0.0
        """Delay of the other clock behind this one, in seconds; 0 if the difference is small."""
        self._capacity = capacity
        self._intervals: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._after_gap: set[str] = set()
        self._new_clock = True

    @property
    def moments(self) -> int:
        """The largest number of samples of any metric, since the last `clear`."""
        return max((ring.count for ring in self.rings.values()), default=0)

    def take(self, metric: Metric, now_s: float) -> None:
        """Stores a metric; `now_s` is this machine's time, in seconds since 1970."""
        name = metric.name
        if name not in self.rings:
            if len(self.rings) >= _MAX_METRICS:
                return
            self.rings[name] = Ring(self._capacity)
        time_s = self._on_our_clock(metric.time_s, now_s)
        last = self._last.get(name)
        if last is not None and time_s <= last:
            time_s = last + 1e-6  # two of one moment keep their order
        if metric.samples:
            self.runs.add(time_s, metric.samples)
        self.rings[name].append(time_s, metric.value, self._is_gap(name, time_s, last))
        self._last[name] = time_s
        self.last_s = max(time_s, self.last_s or time_s)
        self.latest[name] = metric.value
        self.peaks[name] = max(metric.value, self.peaks.get(name, metric.value))

    def mark(self, label: str, time_s: float) -> None:
        """Adds a marker for an event at a time of this machine's clock."""
        self.markers.append(Marker(time_s, label))
        del self.markers[:-_MAX_MARKERS]

    def interrupt(self) -> None:
        """Begins a gap in all curves; the samples after it may come from another clock."""
        self._after_gap.update(self.rings)
        self._intervals.clear()
        self._new_clock = True

    def begin(self) -> None:
        """Begins another watch: resets peaks and single runs, and keeps the curves."""
        self.interrupt()
        self.runs.clear()
        self.latest.clear()
        self.peaks.clear()

    def clear(self) -> None:
        for ring in self.rings.values():
            ring.clear()
        self.runs.clear()
        self._last.clear()
        self._intervals.clear()
        self._after_gap.clear()
        self.peaks = dict(self.latest)
        self.markers.clear()
        self.last_s = None

    def snapshot(self) -> Snapshot:
        columns = {}
        for name, ring in self.rings.items():
            times, values = ring.all()
            if len(times):
                columns[name] = (times.copy(), values.copy())
        return Snapshot(columns, tuple(self.markers))

    def _on_our_clock(self, time_s: float | None, now_s: float) -> float:
        if time_s is None:
            return now_s
        stepped_back = self.last_s is not None and time_s + self.clock_off_s < self.last_s - _CLOCKS_DIFFER_S
        if self._new_clock or stepped_back:
            self._new_clock = False
            off = now_s - time_s
            self.clock_off_s = off if abs(off) > _CLOCKS_DIFFER_S else 0.0
        return time_s + self.clock_off_s

    def _is_gap(self, name: str, time_s: float, last: float | None) -> bool:
        """Whether a gap precedes a sample: one was requested, or the interval is much longer than before."""
        if last is None:
            return False
        interval = time_s - last
        before = self._intervals.get(name)
        requested = name in self._after_gap
        self._after_gap.discard(name)
        if requested or (before is not None and interval > max(_GAP_S, _GAP_INTERVALS * before)):
            return True
        self._intervals[name] = interval
        return False


def utc(time_s: float) -> str:
    """Returns a time in ISO 8601 with milliseconds, as spreadsheets and programs parse it."""
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
