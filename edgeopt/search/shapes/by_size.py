"""What a run took by the size of its input: a median over all sizes would not see that one of them is slower."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from edgeopt.measure.contender import Contender
from edgeopt.search.shapes.sized import Shaped

_FEWEST_RUNS = 8


class SizeTimes(msgspec.Struct, frozen=True):
    """Medians of the runs of one size."""

    sizes: dict[str, int]
    """By the name of the dimension."""
    baseline_ms: float
    latency_ms: float
    runs: int
    """Of the side that had fewer."""
    slower: bool = False
    """Clearly: three quarters of its runs took longer than three quarters of the baseline's."""

    @property
    def name(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self.sizes.items())


def times_by_size(
    shaped: Shaped | None, baseline: Contender, other: Contender, turns: int
) -> tuple[SizeTimes, ...]:
    """From the smallest on; nothing where all samples have one size, or a side did not tell which it ran."""
    if shaped is None:
        return ()
    sides = [by_turn(contender, turns) for contender in (baseline, other)]
    found: dict[tuple[int, ...], tuple[list[float], list[float]]] = {}
    for turn in range(turns):
        key = tuple(shaped.sizes_of(turn).values())
        for place, side in enumerate(sides):
            found.setdefault(key, ([], []))[place].extend(side.get(turn, ()))
    names = [dimension.name for dimension in shaped.dimensions]
    return tuple(
        SizeTimes(
            dict(zip(names, key, strict=True)),
            float(np.median(old)),
            float(np.median(new)),
            min(len(old), len(new)),
            min(len(old), len(new)) >= _FEWEST_RUNS
            and float(np.quantile(new, 0.25)) > float(np.quantile(old, 0.75)),
        )
        for key, (old, new) in sorted(found.items())
        if old and new
    )


def slower_sizes(times: Sequence[SizeTimes]) -> str:
    """Sizes at which it is clearly slower than the baseline, as part of a sentence; empty if there are none."""
    told = [f"{t.name} ({t.latency_ms:.3g} ms instead of {t.baseline_ms:.3g} ms)" for t in times if t.slower]
    return f"slower at {', '.join(told)}" if told else ""


def by_turn(contender: Contender, turns: int) -> Mapping[int, list[float]]:
    """The latencies of each place in the rotation of samples."""
    found: dict[int, list[float]] = {}
    for first, latencies_ms in contender.laps:
        for number, latency_ms in enumerate(latencies_ms):
            found.setdefault((first + number) % turns, []).append(latency_ms)
    return found
