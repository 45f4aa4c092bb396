from types import SimpleNamespace

import pytest

from edgeopt.measure.contender import Contender
from edgeopt.measure.tally import taken_by


def test_it_keeps_the_rounds_and_how_single_runs_lie():
    loaded = SimpleNamespace(load_ms=12.34567, first_run_ms=3.0)
    contender = Contender("a", None, loaded, [1.23456, 2.0], [float(k) for k in range(1, 1001)])
    found = taken_by(contender)
    assert found.slices_ms == (1.235, 2.0)
    assert (found.runs, len(found.quantiles_ms), found.load_ms) == (1000, 101, 12.35)
    assert found.quantiles_ms[50] == pytest.approx(500.5)
    assert (found.quantiles_ms[0], found.quantiles_ms[-1]) == (1.0, 1000.0)


def test_of_a_contender_that_never_ran_there_is_nothing():
    found = taken_by(Contender("a", None, SimpleNamespace(load_ms=1.0, first_run_ms=1.0)))
    assert (found.slices_ms, found.runs, found.quantiles_ms) == ((), 0, ())
