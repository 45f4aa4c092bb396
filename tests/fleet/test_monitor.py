import threading
import time

import numpy as np
import pytest

from edgeopt.errors import DataError, InputError, MissingError
from edgeopt.events import Metric, ignore
from edgeopt.fleet import monitor as module
from edgeopt.fleet.monitor import Traffic, monitor
from edgeopt.fleet.request import FleetWatchRequest


def names(told):
    return {e.name for e in told.events if isinstance(e, Metric)}


def test_watching_with_requests_of_ones_own(serving, conv_data, told, monkeypatch):
    monkeypatch.setattr(module, "_TELL_EVERY_S", 0.2)
    watched = monitor(FleetWatchRequest(serving.url, 1.0, 40.0, conv_data), told)
    assert watched.url == serving.url
    assert 1.0 <= watched.seconds < 10
    assert watched.sent.failures == 0
    assert 20 <= watched.sent.requests <= 60
    assert {"latency_ms", "latency_p99_ms", "percentile_runs", "throughput_per_s", "sent_per_s"} <= names(told)
    failed = [e.value for e in told.events if isinstance(e, Metric) and e.name == "failed_requests"]
    assert set(failed) == {0.0}


def test_watching_alone(serving, told):
    watched = monitor(FleetWatchRequest(serving.url, 0.5), told)
    assert watched.sent is None
    assert "load_percent" in names(told)
    assert "sent_per_s" not in names(told)


def test_nobody_to_watch():
    with pytest.raises(MissingError):
        monitor(FleetWatchRequest("127.0.0.1:1", 0.1), ignore)


WITHIN_S = 20.0
STATUS, MODEL, INFER = "GET /api/v1/status", "GET /v2/models/a%20b", "POST /v2/models/a%20b/infer"
SERVING = (200, {"state": "serving", "serving": {"release": "1", "name": "a b"}})
METADATA = (200, {"name": "a b", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]})


class Answers:
    """Answers requests and lets a test wait for some of them."""

    def __init__(self, answer):
        self.count, self._answer, self._changed = 0, answer, threading.Condition()

    def __call__(self, _handler):
        with self._changed:
            self.count += 1
            self._changed.notify_all()
            return self._answer(self.count)

    def wait(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, WITHIN_S)


def until(true):
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def test_a_real_agent_answers_all(serving, conv_data):
    with Traffic(serving.url, conv_data, clients=2) as traffic:
        until(lambda: traffic.sent().requests >= 50)
    sent = traffic.sent()
    assert (sent.failures, sent.first_failure) == (0, "")
    assert 0 < sent.latency_p50_ms <= sent.latency_p99_ms
    assert traffic.sent() == sent


def test_made_up_inputs_are_taken_by_a_real_agent(serving):
    with Traffic(serving.url) as traffic:
        until(lambda: traffic.sent().requests >= 5)
    assert traffic.sent().failures == 0


def test_data_that_does_not_fit_what_is_served(serving, tmp_path):
    np.savez(tmp_path / "d.npz", z=np.zeros((2, 2), np.float32))
    with (
        pytest.raises(DataError, match="no array for the model's input 'x'"),
        Traffic(serving.url, tmp_path / "d.npz"),
    ):
        pass


def test_the_rate_is_kept(scripted):
    answers = Answers(lambda _: (200, b"ok"))
    server = scripted({STATUS: SERVING, MODEL: METADATA, INFER: answers})
    begin = time.monotonic()
    with Traffic(server.url, rate_per_s=50, clients=3):
        answers.wait(25)
    assert answers.count <= 1 + 50 * (time.monotonic() - begin)


def test_failures_are_counted_and_the_first_is_kept(scripted):
    answers = Answers(lambda n: None if n == 1 else (400, {"error": "no"}) if n == 2 else (200, b"ok"))
    server = scripted({STATUS: SERVING, MODEL: METADATA, INFER: answers})
    with Traffic(server.url, clients=1) as traffic:
        answers.wait(4)
    sent = traffic.sent()
    assert sent.failures == 2
    assert sent.requests >= 3
    assert "RemoteDisconnected" in sent.first_failure


def test_another_model_that_serves_by_now_gets_its_own_requests(scripted):
    """The old name is gone: that is a failure to be counted once, and then requests fit again."""
    now = {"serving": SERVING}
    other = Answers(lambda _: (200, b"ok"))

    def gone(_count):
        now["serving"] = (200, {"state": "serving", "serving": {"release": "2", "name": "new"}})
        return 404, {"error": "unknown model 'a b'"}

    metadata = {"name": "new", "inputs": [{"name": "z", "datatype": "INT64", "shape": [1]}]}
    server = scripted(
        {
            STATUS: lambda _: now["serving"],
            MODEL: METADATA,
            INFER: Answers(gone),
            "GET /v2/models/new": (200, metadata),
            "POST /v2/models/new/infer": other,
        }
    )
    with Traffic(server.url, clients=1) as traffic:
        other.wait(3)
    assert traffic.sent().failures == 1
    assert traffic.sent().first_failure == "404 unknown model 'a b'"


def test_an_agent_that_serves_nothing(start_agent):
    with pytest.raises(InputError, match="serves nothing yet"), Traffic(start_agent().url):
        pass


def test_an_agent_that_goes_away_and_never_comes_back_does_not_hold_it_up(start_agent, conv_bundle):
    started = start_agent()
    started.agent.deploy(conv_bundle, ignore)
    with Traffic(started.url, clients=2) as traffic:
        until(lambda: traffic.sent().requests > 0)
        started.kill()
        until(lambda: traffic.sent().failures > 2)
    with pytest.raises(MissingError), Traffic(started.url):
        pass
