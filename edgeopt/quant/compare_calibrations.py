"""Comparison of all calibration methods on the same samples, for the tensors alone and for the whole model."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgeopt.data.samples import Samples
from edgeopt.events import Emit, Progress, ignore
from edgeopt.quant.calibrate import PHASE, Observed, observe
from edgeopt.quant.ranges import METHODS, Method, noise_db, outside_share, range_of
from edgeopt.quant.records import CalibrationTried, QuantSettings, Range

Judge = Callable[[Mapping[str, Range]], tuple[float, float]]
"""The signal-to-noise ratio of the whole model with these ranges, and its lower bound for other samples, in dB."""
_MIB = 1 << 20
_EXACT_DB = 200.0


def compare_calibrations(
    model_path: Path,
    samples: Samples,
    tensors: Sequence[str],
    settings: QuantSettings,
    emit: Emit = ignore,
    judge: Judge | None = None,
) -> tuple[CalibrationTried, ...]:
    """Returns the result of each method, the most exact first: by the whole model with a `judge`, otherwise by the
    median tensor.

    The model is observed once for all methods.
    """
    observed = observe(model_path, samples, tensors, histograms=True, emit=emit)
    rows = []
    for done, method in enumerate(METHODS):
        emit(Progress(PHASE, f"comparing: {method.name}", done, len(METHODS)))
        rows.append(_row(method, observed, settings, judge))
    return tuple(sorted(rows, key=lambda row: -((row.tensor_db or 0.0) if row.snr_db is None else row.snr_db)))


def _row(method: Method, observed: Observed, settings: QuantSettings, judge: Judge | None) -> CalibrationTried:
    begin = time.perf_counter()
    seen = {name: one for name, one in observed.seen.items() if not one.not_finite}
    ranges = {name: range_of(method, one, settings) for name, one in seen.items()}
    seconds = time.perf_counter() - begin + observed.extremes_s
    if method.needs_histogram:
        seconds += observed.histograms_s
    counted = {name: one.histogram for name, one in seen.items() if one.histogram is not None}
    exact = {name: min(noise_db(histogram, ranges[name]), _EXACT_DB) for name, histogram in counted.items()}
    values = sum(int(histogram.counts.sum()) for histogram in counted.values())
    cut = sum(outside_share(h, ranges[name]) * int(h.counts.sum()) for name, h in counted.items())
    worst = min(exact, key=exact.__getitem__, default="")
    snr_db, low_db = judge(ranges) if judge is not None else (None, None)
    peak = observed.peak_bytes
    return CalibrationTried(
        method.name,
        snr_db,
        low_db,
        seconds,
        None if peak is None else peak / _MIB,
        method.title,
        statistics.median(exact.values()) if exact else _EXACT_DB,
        worst,
        exact.get(worst, _EXACT_DB),
        cut / values if values else 0.0,
    )
