import pytest

from edgeopt.errors import MissingError
from edgeopt.events import Metric, ignore
from edgeopt.fleet import monitor as module
from edgeopt.fleet.monitor import monitor
from edgeopt.fleet.request import WatchRequest


def names(told):
    return {e.name for e in told.events if isinstance(e, Metric)}


def test_watching_with_requests_of_ones_own(serving, conv_data, told, monkeypatch):
    monkeypatch.setattr(module, "_TELL_EVERY_S", 0.2)
    watched = monitor(WatchRequest(serving.url, 1.0, 40.0, conv_data), told)
    assert watched.url == serving.url
    assert 1.0 <= watched.seconds < 10
    assert watched.sent.failures == 0
    assert 20 <= watched.sent.requests <= 60
    assert {"latency_ms", "latency_p99_ms", "percentile_runs", "throughput_per_s", "sent_per_s"} <= names(told)
    failed = [e.value for e in told.events if isinstance(e, Metric) and e.name == "failed_requests"]
    assert set(failed) == {0.0}


def test_watching_alone(serving, told):
    watched = monitor(WatchRequest(serving.url, 0.5), told)
    assert watched.sent is None
    assert "load_percent" in names(told)
    assert "sent_per_s" not in names(told)


def test_nobody_to_watch():
    with pytest.raises(MissingError):
        monitor(WatchRequest("127.0.0.1:1", 0.1), ignore)
