"""Numbers and names as people read them; `UNKNOWN` for what is not known."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from edgeopt import units

if TYPE_CHECKING:
    from edgeopt.events import TokenFigures
    from edgeopt.measure.stats import Interval

UNKNOWN = "-"
"""Text for an unknown value in a table."""
# What says no more to people than `buckets` does.
_BESIDE = frozenset({"bucket_axes", "bucket_cuts", "bucket_fill", "bucket_mask"})


def milliseconds(value: float | None) -> str:
    return UNKNOWN if value is None else units.milliseconds(value)


def time_axis(highest_ms: float) -> Callable[[float], str]:
    """Round numbers of one unit, for an axis that ends there."""
    if highest_ms < 1:
        return lambda value: f"{round(value * 1e3, 6):g} µs"
    return lambda value: f"{value:g} ms"


def size(count: int | None) -> str:
    return UNKNOWN if count is None else units.size(count)


def mebibytes(count: int | None) -> str:
    return UNKNOWN if count is None else units.mebibytes(count)


class MemoryFigures(Protocol):
    """A measurement, or what a report keeps of one."""

    @property
    def added_bytes(self) -> int | None: ...
    @property
    def peak_bytes(self) -> int | None: ...


MEMORY = "Memory added"
"""The title of what `memory` says."""


def memory(found: MemoryFigures | None) -> str:
    """`14.0 MiB (process 73.3 MiB)`: the peak that runtime and model add, and that of the whole process."""
    added, whole = memory_parts(found)
    return f"{added} ({whole})" if added and whole else whole or UNKNOWN


def memory_parts(found: MemoryFigures | None) -> tuple[str, str]:
    """Both parts of it, "" for what is not known."""
    added, peak = (found.added_bytes, found.peak_bytes) if found is not None else (None, None)
    return "" if added is None else units.size(added), "" if peak is None else f"process {units.size(peak)}"


def memory_change(before: MemoryFigures | None, after: MemoryFigures | None) -> str:
    """Returns the change of the added memory: processes of different kinds differ in size before any model."""
    return change(*(None if found is None else found.added_bytes for found in (before, after)))


def moment(time: str) -> str:
    """Returns a time to the minute if it is in UTC; other texts are unchanged."""
    day, _, rest = time.partition("T")
    return f"{day} {rest[:5]} UTC" if rest.endswith("+00:00") else time


def ratio(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.2f}x" if value < 100 else f"{value:,.0f}x"


def ratio_of(found: "Interval | None") -> str:
    """Not known either where the interval is too wide to say anything."""
    return ratio(found.median) if found is not None and found.usable else UNKNOWN


def interval(found: "Interval | None") -> str:
    return UNKNOWN if found is None else span(found.low, found.high)


def span(low: float | None, high: float | None) -> str:
    """`[2.61 3.50]`, or that there is no usable interval."""
    return f"[{low:.2f} {high:.2f}]" if units.usable_interval(low, high) else units.NO_INTERVAL


def share(value: float | None) -> str:
    return UNKNOWN if value is None else units.percent(value)


def decibels(value: float | None) -> str:
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "not comparable"
    from edgeopt.graph import accuracy  # with it comes numpy, which not every reader needs

    return accuracy.decibels(value)


def accuracy(value_db: float | None, tokens: "TokenFigures | None" = None) -> str:
    """Returns `KL 0.0031, 97.1 %` of a decoder judged by its tokens, or else the ratio in decibels."""
    return decibels(value_db) if tokens is None else f"KL {tokens.kl:.2g}, {100 * tokens.top1:.3g} %"


def token_intervals(tokens: "TokenFigures") -> str:
    """Returns divergence and agreement with their intervals."""
    kl = f"KL {tokens.kl:.2g} [{tokens.kl_low:.2g} {tokens.kl_high:.2g}]"
    return f"{kl}, top-1 {100 * tokens.top1:.3g} % [{100 * tokens.top1_low:.3g} {100 * tokens.top1_high:.3g}]"


def change(before: float | None, after: float | None) -> str:
    if not before or after is None:
        return UNKNOWN
    moved = after / before - 1
    return "the same" if abs(moved) < 0.0005 else units.percent(moved, sign="+")


def confidence(found: "Interval") -> str:
    """Returns ` with 95 % confidence`, or nothing if the interval is not usable or its confidence is unknown."""
    return f" with {100 * found.confidence:.3g} % confidence" if found.usable and found.confidence else ""


def several(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {many}" if many and count != 1 else units.count(count, one)


def samples_text(count: int, set_aside: bool | None, generated: bool) -> str:
    """`8 samples set aside`: the samples of a proof, and whether something else used them; None if not known."""
    if generated:
        return units.count(count, "generated sample")
    others = {True: " set aside", False: " that the search had used before", None: ""}
    return f"{units.count(count, 'sample')}{others[set_aside]}"


def options(chosen: dict[str, str | int | float | bool | dict[str, list[int]]]) -> str:
    """`threads=1, shapes: x 1x3x224x224`."""
    parts = [f"{key}={_plain(value)}" for key, value in chosen.items() if not isinstance(value, dict)]
    for key, value in chosen.items():
        if isinstance(value, dict) and key not in _BESIDE:
            mark = "/" if key == "buckets" else "x"
            parts.append(
                f"{key}: " + ", ".join(f"{n} {mark.join(map(str, of)) or 'scalar'}" for n, of in value.items())
            )
    return "; ".join(parts) or "the runtime's own"


def dimensions(sizes: Sequence[int | str | None] | None) -> str:
    """`[batch, 3, ?, 224]`, or `?` where not even their number is known."""
    return "?" if sizes is None else f"[{', '.join('?' if each is None else str(each) for each in sizes)}]"


def ago(seconds: float) -> str:
    """Returns how long ago in the largest unit that fits; a negative time is unknown, as a clock was wrong."""
    if seconds < 0:
        return "at an unknown time (a clock was wrong)"
    for unit, length_s in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length_s:
            return f"{units.count(int(seconds // length_s), unit)} ago"
    return "just now"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
