"""Measurements that never ran, with figures that can be worked out by hand."""

import pytest

from edgeopt.commands.cost.figures import MeasuredRun, Span


@pytest.fixture
def measured():
    """1,000 runs a second, twice as fast as the baseline, unless told otherwise."""

    def make(speedup=(2.0, 1.9, 2.1), verdict="faster", **more):
        fixed = {"runs_per_s": 1000.0, "how": "one request at a time", "counted": True, "baseline": "the old way"}
        ratio = Span(*speedup) if speedup else None
        return MeasuredRun(
            "run.json", "saved run", "the new way", speedup=ratio, verdict=verdict, **{**fixed, **more}
        )

    return make
