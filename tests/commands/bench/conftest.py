"""Reports of contests that never ran, with latencies as told."""

import numpy as np
import pytest

from edgeopt.measure.report import ContestReport, Figures, RoundState, SideReport, Slice


def made_side(name, latency_ms, rounds=30, noise=0.01, seed=0, **more):
    random = np.random.default_rng(seed)
    medians = latency_ms * np.exp(noise * random.standard_normal(rounds))
    slices = tuple(Slice(k, 0.1 * k, 0.05, (m, m * 1.01, m * 0.99)) for k, m in enumerate(map(float, medians)))
    p50 = float(np.median(medians))
    figures = Figures(rounds * 3, p50, p50, p50, p50, p50, 0.0, p50, p50, 1e3 / p50)
    return SideReport(name, name, "model", "null", figures=figures, slices=slices, **more)


QUIET = (RoundState(0, 0.0, 1.0, clock_hz=2e9, others_percent=1.0),)


@pytest.fixture
def report():
    """Makes one of `name=latency_ms` sides, measured on a quiet device."""

    def make(sides, seed=0, **more):
        fixed = {
            "states": QUIET,
            "rounds": 30,
            "data": "data.npz",
            "device": {"cpu": "1"},
            "versions": {"edgeopt": "1"},
        }
        made = tuple(made_side(n, ms, seed=seed + k) for k, (n, ms) in enumerate(sides.items()))
        return ContestReport(made, **{**fixed, **more})

    return make
