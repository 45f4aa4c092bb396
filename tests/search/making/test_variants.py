import os
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, open_samples, save_samples
from edgeopt.errors import ModelError
from edgeopt.measure.host import LocalHost
from edgeopt.quant.records import QuantSettings
from edgeopt.search.making.messages import Made, Make
from edgeopt.search.making.variants import Maker, inspect, make_all


@pytest.fixture
def makers(tmp_path):
    with ExitStack() as stack:

        def start(count):
            found = [Maker(LocalHost(tmp_path)) for _ in range(count)]
            for maker in found:
                stack.callback(maker.close)
            return found

        yield start


@pytest.fixture
def job(tmp_path, conv_model, conv_samples):
    """What a search asks a maker for."""
    save_samples(conv_samples, tmp_path / "samples")

    def ask(recipe, **changes):
        out = tmp_path / "variants" / recipe / "model.onnx"
        out.parent.mkdir(parents=True, exist_ok=True)
        parts = {
            "recipe": recipe,
            "source_path": str(conv_model),
            "base_path": str(conv_model),
            "out_path": str(out),
            "samples_path": str(tmp_path / "samples"),
            "check_first": 8,
            "check_count": 4,
            "calibration_count": 8,
            "settings": QuantSettings(),
            "backends": ("onnxruntime-cpu",),
        }
        return Make(**{**parts, **changes})

    return ask


@pytest.fixture
def conv_samples(conv_data):
    import numpy as np

    with np.load(conv_data) as archive:
        return Samples({"x": archive["x"]}, {"x": 4})


def soon():
    return time.monotonic() + 60


def answers(found):
    return {job.recipe: made if isinstance(made, Made) else made.message for job, made in found}


def test_each_is_made_and_says_how(makers, job):
    jobs = [job("cleaned"), job("int8"), job("int8-dynamic")]
    found = answers(make_all(makers(2), jobs, soon()))
    assert set(found) == {"cleaned", "int8", "int8-dynamic"}
    for one in jobs:
        made = found[one.recipe]
        path = made.plans.variants[0].path if made.plans else one.out_path
        assert Path(path).stat().st_size > 1000
        assert made.seconds > 0
    assert "fold-constants" in {entry.pass_name for entry in found["cleaned"].ledger if entry.applied}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"samples_path": "/nowhere"}, "names"),
        ({"source_path": "/nowhere.onnx", "base_path": "/nowhere.onnx"}, "nowhere.onnx"),
    ],
    ids=["no samples", "no model"],
)
def test_one_that_fails_says_why_and_the_others_go_on(makers, job, changes, says):
    found = answers(make_all(makers(1), [job("int8", **changes), job("int8-dynamic")], soon()))
    assert isinstance(found.pop("int8-dynamic"), Made)
    (reason,) = found.values()
    assert says in reason


@pytest.mark.processes
def test_a_maker_that_dies_is_a_stated_failure_and_the_others_go_on(makers, job):
    (maker,) = makers(1)
    os.kill(maker.process.child.pid, signal.SIGKILL)
    found = answers(make_all([maker], [job("int8"), job("int8-dynamic")], soon()))
    assert found["int8"].startswith("was killed by the system, perhaps for memory")
    assert isinstance(found["int8-dynamic"], Made)


@pytest.mark.processes
def test_what_is_not_ready_by_the_deadline_is_given_up(makers, job):
    """A maker that is stopped never answers; nobody waits for it, and nothing is begun after the deadline."""
    (maker,) = makers(1)
    os.kill(maker.process.child.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 0.3
    found = answers(make_all([maker], [job("int8"), job("int8-dynamic")], deadline))
    assert len(found) == 2
    assert all("time limit" in reason for reason in found.values())
    again = answers(make_all([maker], [job("cleaned")], deadline))
    assert "time limit" in again["cleaned"]


@pytest.mark.processes
def test_what_is_not_ready_when_it_is_told_to_stop_is_given_up(makers, job):
    (maker,) = makers(1)
    os.kill(maker.process.child.pid, signal.SIGSTOP)
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    for _ in range(2):  # while one is made, and before any is
        found = answers(make_all([maker], [job("int8"), job("cleaned")], soon(), stop=stop))
        assert found == dict.fromkeys(("int8", "cleaned"), "not ready when the search was stopped")


def test_inspecting_says_what_the_model_is_and_makes_samples(makers, conv_model, tmp_path):
    (maker,) = makers(1)
    facts = inspect(maker, conv_model, tmp_path / "generated", 5)
    assert [i.name for i in facts.inputs] == ["x"]
    assert facts.operators["Conv"] == 1
    samples = open_samples(tmp_path / "generated")
    silent = [not samples.feeds(k)["x"].any() for k in range(len(samples))]
    assert not any(silent[:5])
    assert any(silent[5:])  # what a search is proved on is not of one kind
    assert samples.feeds(0)["x"].shape == (1, 3, 16, 16)


def test_data_are_checked_against_what_was_inspected(makers, conv_model, conv_data, tmp_path):
    (maker,) = makers(1)
    facts = inspect(maker, conv_model, tmp_path / "generated", 1)
    assert len(load_data(conv_data, facts.inputs)) == 32


@pytest.mark.processes
def test_a_model_that_kills_its_reader_is_refused(makers, conv_model, tmp_path):
    (maker,) = makers(1)
    os.kill(maker.process.child.pid, signal.SIGKILL)
    with pytest.raises(ModelError, match=r"Reading 'conv\.onnx' was killed by the system"):
        inspect(maker, conv_model, tmp_path / "generated", 1)
