import asyncio
import json
import signal
import threading
import time
from contextlib import closing
from http.client import HTTPConnection

import psutil
import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt_agent.service import _Probed
from tests.agent.conftest import DEADLINE_S, LONG_DRAIN_S
from tests.processes import wait_ended


def test_it_serves_again_what_it_served_before(start_agent, old_bundle):
    first = start_agent()
    first.deploy(old_bundle)
    first.stop()
    assert first.process.returncode == 0
    second = start_agent()
    second.serves(old_bundle)


def test_a_clean_stop_finishes_what_is_in_flight_and_leaves_no_process(start_agent, make_null_bundle):
    agent = start_agent(latency_slack_ms=1000.0, soak_s=0.0, soak_requests=0, drain_s=LONG_DRAIN_S)
    done = agent.deploy(make_null_bundle(latency_ms=60.0))
    assert done["state"] == "COMMITTED", done["reason"]
    worker = psutil.Process(agent.status()["serving"]["pid"])
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
    with (
        closing(HTTPConnection("127.0.0.1", agent.port)) as one,
        closing(HTTPConnection("127.0.0.1", agent.port)) as two,
    ):
        for connection in (one, two):
            connection.request("POST", "/v2/models/null/infer", body)
        assert one.getresponse().status == 200  # so the worker is at the other one now
        agent.stop()
        assert two.getresponse().status == 200
    assert not psutil.pid_exists(worker.pid)


def test_a_stop_does_not_wait_for_who_waits_for_events(start_agent):
    agent = start_agent(drain_s=LONG_DRAIN_S)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(agent.ask("GET", "/api/v1/events?wait_s=30")))
    waiting.start()
    agent.until(lambda: len(psutil.Process(agent.process.pid).net_connections("tcp")) > 1, "the connection")
    agent.stop(DEADLINE_S / 2)  # it waits for the whole deadline
    waiting.join()
    assert answers[0][2]["events"] == []


def test_its_workers_do_not_outlive_it(start_serving):
    agent = start_serving()
    worker = psutil.Process(agent.status()["serving"]["pid"])
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    wait_ended([worker])


def test_it_answers_before_the_release_is_loaded(start_agent, make_null_bundle):
    agent = start_agent()
    done = agent.deploy(make_null_bundle(load_ms=1000.0))
    assert done["state"] == "COMMITTED", done["reason"]
    agent.stop()
    begin = time.monotonic()
    again = start_agent()
    early = again.status()
    assert time.monotonic() - begin < 60
    assert early["serving"] is None
    assert "is being started" in early["reason"]
    again.settled()
    assert again.status()["serving"]["release"] == release_id_of(again)


def release_id_of(agent):
    return (agent.data_dir / "current").readlink().name


def test_a_second_agent_on_the_same_folder_is_refused(start_agent):
    first = start_agent()
    with pytest.raises(AssertionError, match=f"in use by the agent with the process id {first.process.pid}"):
        start_agent()


def test_another_host_needs_a_trusted_key(start_agent):
    with pytest.raises(AssertionError, match="trusts no key yet"):
        start_agent(host="0.0.0.0")  # noqa: S104 - refused here


@pytest.mark.cold
def test_the_agent_itself_loads_no_numbers_and_no_runtime(start_serving, old_bundle):
    agent = start_serving()
    mapped = {m.path.rsplit("/", 1)[-1] for m in psutil.Process(agent.process.pid).memory_maps()}
    assert not [name for name in mapped if name.startswith(("_multiarray_umath", "onnxruntime", "libopenvino"))]
    assert release_id(old_bundle)


def test_a_probe_that_failed_is_tried_again(monkeypatch):
    answers = iter([OSError("busy"), "found"])

    def probe():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask():
        probed = _Probed()
        with pytest.raises(OSError, match="busy"):
            await probed()
        return await probed(), await probed()

    monkeypatch.setattr("edgeopt.hw.probe.probe", probe)
    assert asyncio.run(ask()) == ("found", "found")


def test_a_worker_that_hangs_is_started_again_without_a_request_that_notices(start_serving, old_bundle):
    agent = start_serving(hang_timeout_s=3.0)
    pid = agent.settled()["serving"]["pid"]
    psutil.Process(pid).suspend()
    agent.until(lambda: (s := agent.status()["serving"]) and s["pid"] != pid, "the next worker")
    agent.serves(old_bundle)
    events = agent.ask("GET", "/api/v1/events")[2]["events"]
    assert any(e["state"] == "HUNG" and "no sign of life" in e["reason"] for e in events)
