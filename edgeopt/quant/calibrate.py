"""The ranges of a model's activations, found on samples, and what else the samples show."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeopt.data.samples import Samples
from edgeopt.events import Emit, ignore
from edgeopt.quant.findings import findings_of
from edgeopt.quant.observe import Observed, observe
from edgeopt.quant.ranges import Method, Seen, method_named, range_of
from edgeopt.quant.records import Found, Range
from edgeopt.quant.settings import QuantSettings


@dataclass(frozen=True, slots=True)
class Calibrated:
    ranges: dict[str, Range]
    """By tensor, 0 inside; one that held NaN or infinity has none."""
    findings: tuple[Found, ...]
    seconds: float
    seen: Mapping[str, Seen]
    """What the ranges were made of: also the extremes of each channel."""


def calibrate(
    model_path: Path,
    samples: Samples,
    tensors: Sequence[str],
    settings: QuantSettings,
    emit: Emit = ignore,
) -> Calibrated:
    """Runs the model on all these samples, holding one sample's values at most, and some of its tensors at a time.

    The tensors are inputs or results of nodes of the main graph.
    """
    begin = time.perf_counter()
    method = method_named(settings.calibration)
    observed = observe(model_path, samples, tensors, histograms=method.needs_histogram, emit=emit)
    ranges = ranges_of(observed, method, settings)
    found = findings_of(observed.seen, ranges)
    return Calibrated(ranges, found, time.perf_counter() - begin, observed.seen)


def ranges_of(observed: Observed, method: Method, settings: QuantSettings) -> dict[str, Range]:
    return {name: range_of(method, seen, settings) for name, seen in observed.seen.items() if not seen.not_finite}
