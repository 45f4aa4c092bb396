"""Objectives of a search: the latency of a run, throughput, or another figure at no lower speed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from edgeopt import units
from edgeopt.errors import OptionReference, UsageError
from edgeopt.measure.contender import Contender
from edgeopt.measure.messages import Memory
from edgeopt.nearest import nearest

_MIB = 2**20
_TAIL = 0.99
_MANY = 1000


@dataclass(frozen=True, slots=True)
class Objective:
    """Figure of a deployment that a search optimizes; less is better, unless its unit is something per second."""

    name: str
    title: str
    unit: str
    scale: float
    """Divisor that converts the figure to its unit."""
    figure: Callable[[Contender, int], float | None] | None
    """Function of a contender that has run and the bytes of its files; None: the races decide, round by round."""

    @property
    def of_time(self) -> bool:
        """Whether the objective gets better as each run takes less."""
        return self.name in {LATENCY, THROUGHPUT, "p99", ENERGY, TOKENS_PER_SECOND, FIRST_TOKEN}

    @property
    def by_sample(self) -> bool:
        """Whether races compare the time per sample under a load, the inverse of throughput."""
        return self.name == THROUGHPUT

    @property
    def per_second(self) -> bool:
        """Whether the figure is the inverse of the time that the races compare."""
        return self.name in {THROUGHPUT, TOKENS_PER_SECOND}

    def figure_of(self, contender: Contender | None, size_bytes: int | None) -> float | None:
        """Returns the figure of a contender that runs; None if the races decide."""
        return None if self.figure is None or contender is None else self.figure(contender, size_bytes or 0)

    def shown(self, value: float) -> str:
        shown = value / self.scale
        return f"{shown:,.0f} {self.unit}" if shown >= _MANY else f"{shown:.3g} {self.unit}"


def _tail_ms(contender: Contender, _size_bytes: int) -> float | None:
    return float(np.quantile(contender.latencies_ms, _TAIL)) if contender.latencies_ms else None


def _peak_bytes(contender: Contender, _size_bytes: int) -> float | None:
    found = contender.memory.peak_bytes if contender.memory is not None else None
    return None if found is None else float(found)


def _size_bytes(_contender: Contender, size_bytes: int) -> float | None:
    return float(size_bytes)


def _first_answer_ms(contender: Contender, _size_bytes: int) -> float | None:
    return contender.loaded.load_ms + contender.loaded.first_run_ms


def _run_joules(contender: Contender, _size_bytes: int) -> float | None:
    return float(np.median(contender.joules)) if contender.joules else None


LATENCY, THROUGHPUT, ENERGY, MEMORY = "latency", "throughput", "energy", "memory"
TOKENS_PER_SECOND, FIRST_TOKEN = "tokens-per-second", "first-token"
OF_DECODERS = frozenset({TOKENS_PER_SECOND, FIRST_TOKEN})
"""Objectives that only a decoder with a cache has."""
OBJECTIVES = (
    Objective(LATENCY, "median latency", "ms", 1.0, None),
    Objective(THROUGHPUT, "throughput", "samples/s", 1.0, None),
    Objective(TOKENS_PER_SECOND, "tokens per second", "tokens/s", 1.0, None),
    Objective(FIRST_TOKEN, "time to the first token", "ms", 1.0, None),
    Objective("p99", "latency of 99 in 100 runs", "ms", 1.0, _tail_ms),
    Objective(MEMORY, "peak memory", "MiB", _MIB, _peak_bytes),
    Objective("size", "size of the files", "MiB", _MIB, _size_bytes),
    Objective("first-answer", "time to load and run once", "ms", 1.0, _first_answer_ms),
    Objective(ENERGY, "energy per run", "mJ", 1e-3, _run_joules),
)


def objective_named(name: str) -> Objective:
    for each in OBJECTIVES:
        if each.name == name:
            return each
    names = tuple(each.name for each in OBJECTIVES)
    raise UsageError(f"There is no objective '{name}'.", nearest(name, names))


OVER: Final = "over a limit"
"""Status of a candidate that exceeds a resource limit."""


class ResourceLimits(msgspec.Struct, frozen=True):
    """Resource limits of a deployment; None is no limit."""

    memory_bytes: int | None = None
    """Peak memory of the whole process."""
    size_bytes: int | None = None
    """Size of all files of the model."""
    latency_ms: float | None = None
    """Median time of a run."""


def limits_from(
    max_memory_mib: float | None = None, max_size_mib: float | None = None, max_latency_ms: float | None = None
) -> ResourceLimits:
    """Returns the limits; raises UsageError if one is not more than 0."""
    values = {
        "max_memory_mib": max_memory_mib,
        "max_size_mib": max_size_mib,
        "max_latency_ms": max_latency_ms,
    }
    for name, value in values.items():
        if value is not None and not value > 0:
            limit = OptionReference(name, f"{value:g}")
            raise UsageError(f"{limit} is not a possible limit.", "Give more than 0.", [limit])
    return ResourceLimits(
        None if max_memory_mib is None else int(max_memory_mib * _MIB),
        None if max_size_mib is None else int(max_size_mib * _MIB),
        max_latency_ms,
    )


def excess(
    limits: ResourceLimits,
    memory: Memory | None = None,
    size_bytes: int | None = None,
    latency_ms: float | None = None,
) -> str:
    """Describes the known figures that are over their limits; empty if there are none."""
    peak = memory.peak_bytes if memory is not None else None
    excesses = []
    if limits.memory_bytes is not None and peak is not None and peak > limits.memory_bytes:
        excesses.append(f"it needs {peak / _MIB:.0f} MiB of memory; the limit is {limits.memory_bytes / _MIB:.0f}")
    if limits.size_bytes is not None and size_bytes is not None and size_bytes > limits.size_bytes:
        excesses.append(f"its files have {size_bytes / _MIB:.3g} MiB; the limit is {limits.size_bytes / _MIB:.3g}")
    if limits.latency_ms is not None and latency_ms is not None and latency_ms > limits.latency_ms:
        excesses.append(
            f"a run takes {units.milliseconds(latency_ms)}; the limit is " + units.milliseconds(limits.latency_ms)
        )
    return "; ".join(excesses)
