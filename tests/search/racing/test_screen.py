import dataclasses
from contextlib import ExitStack

import numpy as np
import pytest

from edgeopt.data.samples import open_samples
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.entrants import Entry, judge
from tests.search.conftest import Track


def test_a_good_candidate_stays_loaded(track):
    entry = track.enter("good")
    assert entry.contender is not None
    assert entry.accuracy_db == 200
    assert entry.loaded is not None
    assert entry.loaded.load_ms >= 0


@pytest.mark.parametrize(("noise", "passes"), [(1e-4, True), (0.2, False)])
def test_the_floor_decides(track, noise, passes):
    entry = track.enter("noisy", noise=noise)
    assert (entry.contender is not None) is passes
    assert (entry.accuracy_db > 30) is passes
    if not passes:
        assert entry.status == "below the floor"
        assert "on 8 samples not used for calibration" in entry.reason
        assert "the floor is 30 dB" in entry.reason


@pytest.mark.parametrize(("error", "status"), [(1e-5, "lost"), (2e-3, "below the floor")])
def test_the_weakest_level_of_input_decides(tmp_path, null_model, error, status):
    with ExitStack() as stack:
        track = Track(tmp_path, stack, null_model, quiet=3)
    samples = open_samples(track.ground.samples_path)
    right = [{"y": samples.feeds(k)["x"]} for k in range(len(samples))]
    entry = Entry(Candidate("source", "null", {}))
    answers = [{"y": answer["y"] + np.float32(error)} for answer in right]
    judge(dataclasses.replace(track.standard, reference=right), entry, answers)
    assert entry.status == status
    assert ("on the 3 samples at 0.0" in entry.reason) is (status != "lost")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ({"fail": "load"}, "fails while it should load"),
        ({"fail": "run"}, "fails while it should run"),
        ({"crash": "load"}, "SIGSEGV"),
        ({"crash": "run"}, "SIGSEGV"),
        ({"outputs": [{"name": "z", "dtype": "float32", "shape": ["batch", 8]}]}, "'y' is missing"),
        ({"outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 9]}]}, "shape"),
        ({"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 9]}]}, "'x' must have"),
    ],
)
def test_a_candidate_that_fails_is_out_with_its_reason(track, faults, says):
    entry = track.enter("faulty", **faults)
    assert entry.status == "failed"
    assert says in entry.reason
    assert entry.contender is None


@pytest.mark.processes
def test_a_candidate_that_hangs_is_killed(track):
    entry = track.enter("hanging", timeout_s=2.0, hang="run")
    assert entry.status == "failed"
    assert "hung" in entry.reason
