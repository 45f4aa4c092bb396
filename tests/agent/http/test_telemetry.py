import asyncio
import json

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from edgeopt.events import Log, Metric, Progress, decode
from edgeopt_agent.http import telemetry

ROW = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
REQUEST = json.dumps({"inputs": [ROW]}).encode()


def watch(server, **options):
    return connect(f"ws://{server.place}{telemetry.PATH}", **options)


def events(viewer, until):
    """All events up to one for which `until` holds."""
    found = []
    while True:
        for line in viewer.recv(10).splitlines():
            found.append(decode(line))
            if until(found[-1]):
                return found


def is_metric(name):
    return lambda event: isinstance(event, Metric) and event.name == name


def test_a_viewer_sees_latency_memory_and_load_move(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle(latency_ms=5))
    with watch(server) as viewer:
        events(viewer, is_metric("throughput_per_s"))
        for _ in range(3):
            server.do(server.router.infer("null", None, REQUEST))
        found = events(viewer, is_metric("latency_p99_ms"))
        found += events(viewer, is_metric("load_percent"))
        latest = {event.name: event for event in found if isinstance(event, Metric)}
        assert 4.9 < latest["latency_p50_ms"].value <= latest["latency_p99_ms"].value < 500
        assert latest["process_memory_bytes"].value > 10 << 20
        assert latest["agent_memory_bytes"].value > 10 << 20
        assert latest["device_memory_bytes"].value > 10 << 20
        assert 0 <= latest["load_percent"].value <= 100
        assert all(event.time_s > 1.7e9 for event in latest.values())
        told = {event.message.split()[4].rstrip(":") for event in found if isinstance(event, Log)}
        assert told.isdisjoint(latest)


def test_deployments_are_told_as_they_happen_and_the_present_one_to_late_viewers(serving):
    server = serving()
    first = Progress("probing", "digits", subject="deployment 1", time_s=1.0)
    second = Progress("committed", "digits", subject="deployment 1", time_s=2.0)
    server.loop.call_soon_threadsafe(server.hub.tell, first)
    with watch(server) as early:
        assert events(early, lambda event: isinstance(event, Progress))[-1] == first
        server.loop.call_soon_threadsafe(server.hub.tell, second)
        assert events(early, lambda event: isinstance(event, Progress))[-1] == second
        with watch(server) as late:
            assert events(late, lambda event: isinstance(event, Progress)) == [second]


def test_nobody_watching_costs_nothing_and_many_share_one_sampler(serving):
    server = serving()
    assert not server.hub.sampling
    with watch(server) as one, watch(server) as other:
        events(one, is_metric("throughput_per_s"))
        events(other, is_metric("throughput_per_s"))
        assert server.hub.viewers == 2
        assert len(server.router.watchers) == 1
    gone(server)


def gone(server):
    async def left():
        async with asyncio.timeout(60):
            while server.hub.viewers:
                await asyncio.sleep(0.01)

    server.do(left())
    assert not server.hub.sampling
    assert server.router.watchers == []


def test_the_lease_ends_unless_it_is_renewed(serving, monkeypatch):
    monkeypatch.setattr(telemetry.routes, "__defaults__", (0.6,))
    server = serving()
    with watch(server) as renewing, watch(server) as silent:
        for _ in range(4):
            events(renewing, is_metric("throughput_per_s"))
            renewing.send("more")
        with pytest.raises(ConnectionClosed) as caught:
            read_on(silent, lambda: renewing.send("more"))
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (4000, "lease ended")
        renewing.send("still here")
        events(renewing, is_metric("throughput_per_s"))
    gone(server)


def read_on(viewer, after_each):
    while True:
        viewer.recv(10)
        after_each()


def test_a_viewer_that_does_not_read_is_dropped(serving):
    server = serving(drain_s=0.2)
    with watch(server, max_queue=1, close_timeout=0.1) as stuck:
        events(stuck, is_metric("throughput_per_s"))

        async def flood():
            async with asyncio.timeout(60):
                while server.hub.viewers:
                    server.hub.tell(Log("info", "x" * 100_000))
                    await asyncio.sleep(0)

        server.do(flood())
    gone(server)


def test_a_page_in_a_browser_may_not_watch(serving):
    with pytest.raises(InvalidStatus) as caught:
        watch(serving(), origin="http://somewhere.example")
    assert caught.value.response.status_code == 403


def test_a_query_is_refused_as_it_would_not_be_followed(serving):
    with pytest.raises(InvalidStatus), connect(f"ws://{serving().place}{telemetry.PATH}?lease_s=5"):
        pass
