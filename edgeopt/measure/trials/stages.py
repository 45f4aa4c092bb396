"""Times what is done before a model, the model, and what is done after it, apart but one after the other."""

import time
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.bundle.processing.golden import RAW
from edgeopt.bundle.runtime.session import Session, load, locate
from edgeopt.errors import UsageError
from edgeopt.measure.messages import StageTimes

_WARM_UP_RUNS = 3
_FEWEST_RUNS, _MOST_RUNS = 5, 2000


def time_stages(path: Path, seconds: float) -> StageTimes:
    """Times the stages of a bundle on its golden samples for this long; raises UsageError without processing."""
    place = locate(path)
    bundle = place.bundle
    told = bundle.deployment.processing if bundle is not None else None
    if bundle is None or told is None:
        raise UsageError(f"'{path.name}' has no pre- or postprocessing.", "There is nothing to time.")
    feeds = bundle.golden("inputs")
    raw = bundle.golden(RAW) if told.pre is not None and bundle.has_golden(RAW) else None
    laps: list[tuple[float, float, float]] = []
    with load(path) as session:
        for position in range(_WARM_UP_RUNS):
            _lap(session, raw, feeds, position)
        until = time.perf_counter() + seconds
        while len(laps) < _MOST_RUNS and (len(laps) < _FEWEST_RUNS or time.perf_counter() < until):
            laps.append(_lap(session, raw, feeds, len(laps)))
    pre, inference, post = (float(value) for value in np.median(np.asarray(laps), axis=0) * 1e3)
    return StageTimes(
        inference_ms=inference,
        runs=len(laps),
        pre_ms=pre if raw is not None else None,
        post_ms=post if told.post is not None else None,
    )


def _lap(
    session: Session, raw: list[dict[str, Array]] | None, feeds: list[dict[str, Array]], position: int
) -> tuple[float, float, float]:
    """What preprocessing makes is not what runs: samples that are made up could lead a model elsewhere."""
    processor, given = session.processor, feeds[position % len(feeds)]
    assert processor is not None  # noqa: S101 - the bundle processes
    begin = time.perf_counter()
    if raw is not None:
        processor.pre(raw[position % len(raw)])
    prepared = time.perf_counter()
    outputs = session.run(given)
    answered = time.perf_counter()
    processor.after(outputs)
    return prepared - begin, answered - prepared, time.perf_counter() - answered
