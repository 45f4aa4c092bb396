import threading
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.measure.legs import FEWEST, is_settled
from edgeopt.measure.sequential import Pairs, leg_of, rules_of
from edgeopt.measure.terms import PROOF
from edgeopt.search.delivering.proving import terms_of
from edgeopt.search.objectives import objective_named
from edgeopt.search.stopping import Clock, Ending

SEARCHES = 400


def normal(random, legs):
    return random.normal(0.0, 0.03, legs)


def heavy(random, legs):
    return 0.01 * random.standard_t(2, legs)


def jumping(random, legs):
    """Two speeds, as a small model on two threads has them."""
    return random.normal(0.0, 0.01, legs) + 0.3 * (random.random(legs) < 0.3) - 0.3 * (random.random(legs) < 0.3)


@pytest.mark.parametrize("luck", [normal, heavy, jumping])
def test_at_most_one_search_in_forty_calls_something_faster_that_is_not(luck):
    """Each tries four candidates that are as fast as the baseline, each over as many legs as it may."""
    random = np.random.default_rng(1)
    wrong = sum(any(called_faster(random, luck, most) for most in PROOF.legs) for _ in range(SEARCHES))
    assert wrong <= SEARCHES / 40


def test_what_is_clearly_faster_is_found():
    random = np.random.default_rng(1)
    found = sum(called_faster(random, normal, PROOF.legs[0], gain=0.2) for _ in range(100))
    assert found >= 98


def called_faster(random, luck, most, gain=0.0):
    pairs = Pairs.of(1, rules_of(PROOF))
    for number, drawn in enumerate(luck(random, most), 1):
        rounds = np.exp(random.normal(0.0, 0.02, 4))
        pairs.legs[0].append(leg_of(rounds, np.exp(drawn + gain) * rounds[::-1]))
        pairs.judge(number == most, lambda _: True)
        if is_settled(pairs.decisions, range(1), number):
            break
    return pairs.decisions[0].verdict == "faster"


LATENCY, MEMORY = objective_named("latency"), objective_named("memory")


@pytest.fixture
def told():
    return []


@pytest.fixture
def ending(told):
    loaded = SimpleNamespace(load_ms=10.0, first_run_ms=2.0, import_ms=150.0)
    source = SimpleNamespace(slices_ms=[2.0], loaded=loaded)
    return Ending(threading.Event(), Clock(5.0, 2.0), source, told.append)


def test_what_runs_today_is_what_must_be_outrun_where_it_is_given(ending):
    assert list(terms_of(LATENCY, ending, 6, 2, 0).wanted) == [0, 1]
    assert list(terms_of(LATENCY, ending, 6, 1, 1).wanted) == [1]
    assert list(terms_of(MEMORY, ending, 6, 1, 1).wanted) == [0, 1]
    # Of two seconds that began at 5, the last 0.6 write the bundle.
    assert terms_of(LATENCY, ending, 6, 1, 0).until_s == pytest.approx(7.0 - 0.624)


def test_a_search_that_is_stopped_says_so_and_proves_in_the_fewest_legs(ending, told):
    terms = terms_of(LATENCY, ending, PROOF.legs[0], 1, 0)
    assert not terms.is_stopped()
    assert not told
    ending.stop.set()
    assert terms.is_stopped()
    assert told
    assert ending.legs(0, PROOF.legs[0]) == FEWEST
