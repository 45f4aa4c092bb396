import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt_agent import main as cli
from edgeopt_agent.data_dir import DataDir, point
from edgeopt_agent.deployments import probing, supervisor
from edgeopt_agent.deployments.slots import Slots
from tests.agent.deployments.soaks import soaking
from tests.processes import wait_ended


def kill_worker(agent):
    """Kills the worker that serves; the process id of the next one that does."""
    pid = agent.settled()["serving"]["pid"]
    os.kill(pid, signal.SIGKILL)
    gone = agent.until(
        lambda: (s := agent.status()["serving"]) is None or s["pid"] != pid, "the end of the worker"
    )
    assert gone
    return pid


def test_a_worker_that_dies_is_started_again_and_that_is_told(agent, old_bundle):
    pid = kill_worker(agent)
    agent.serves(old_bundle)
    assert agent.status()["serving"]["pid"] != pid
    told = [e for e in agent.ask("GET", "/api/v1/events")[2]["events"] if e["kind"] == "worker"]
    assert [e["state"] for e in told] == ["SERVING", "CRASHED", "SERVING"]
    assert "SIGKILL" in told[1]["reason"]


def test_a_release_that_keeps_dying_gives_way_to_the_previous_one(agent, old_bundle, new_bundle):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    for _ in range(3):
        kill_worker(agent)
    agent.until(lambda: agent.status()["deployment"]["kind"] == "rollback", "the way back")
    agent.until(lambda: agent.status()["state"] == "serving", "its end")
    agent.serves(old_bundle)
    assert (
        f"{release_id(new_bundle)} failed 3 times in a row" in agent.status()["deployment"]["history"][0]["reason"]
    )


def post(agent, *values):
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": values}
    status, _, answer = agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))
    return status, answer


def test_a_release_that_keeps_hanging_gives_way_to_the_previous_one(start_serving, old_bundle, make_null_bundle):
    limit_s = 3.0
    agent = start_serving(hang_timeout_s=limit_s, request_timeout_s=60.0, crash_window_s=4.0, crashes_allowed=2)
    hanging = make_null_bundle(hang_on=-1)
    assert agent.deploy(hanging)["state"] == "COMMITTED"
    with ThreadPoolExecutor() as pool:
        pid = agent.settled()["serving"]["pid"]
        hung = pool.submit(post, agent, -1, 2, 3, 5)
        agent.until(lambda: pending(agent) == 1, "the run that hangs")
        behind = [pool.submit(post, agent, 1, 2, 3, 4) for _ in range(4)]
        status, answer = hung.result()
        assert (status, "hung: no answer within 3 s" in answer["error"]) == (503, True)
        assert [each.result()[0] for each in behind] == [200] * 4
        assert agent.settled()["serving"]["pid"] != pid
    found = agent.status()
    assert (found["hangs"], found["crashes"]) == (1, 0)
    assert f'edgeopt_worker_hangs{{model="null",version="{release_id(hanging)}"}} 1.0' in metrics(agent)
    assert post(agent, -1, 2, 3, 4)[0] == 503
    agent.until(lambda: agent.status()["deployment"]["kind"] == "rollback", "the way back")
    agent.serves(old_bundle)
    told = [e["state"] for e in agent.ask("GET", "/api/v1/events")[2]["events"] if e["kind"] == "worker"]
    assert told == ["SERVING", "HUNG", "SERVING", "HUNG"]


def metrics(agent):
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics") as answer:
        return answer.read().decode()


def pending(agent):
    lines = metrics(agent).splitlines()
    return float(next(line for line in lines if line.startswith("nv_inference_pending")).split()[-1])


def test_with_nothing_to_go_back_to_it_is_degraded_and_goes_on_trying(agent, old_bundle):
    for _ in range(3):
        kill_worker(agent)
    agent.until(
        lambda: "No other release to roll back to" in agent.status()["reason"],
        "the end of its patience",
    )
    agent.serves(old_bundle)
    assert agent.status()["reason"] == ""


def test_a_way_back_that_is_barred_is_told_and_the_agent_goes_on(agent, old_bundle, new_bundle):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    (agent.data_dir / "releases" / release_id(old_bundle) / "deployment.toml").write_text("name = ")
    for _ in range(3):
        kill_worker(agent)
    reason = agent.until(
        lambda: (r := agent.status()["reason"]) and "Going back" in r and r, "the end of its patience"
    )
    assert f"Going back to {release_id(old_bundle)} is not possible" in reason
    agent.serves(new_bundle)


def test_a_slow_start_does_not_hide_that_a_release_keeps_dying(start_serving, old_bundle, make_null_bundle):
    agent = start_serving(crash_window_s=1.5)
    assert agent.deploy(make_null_bundle(load_ms=1000.0))["state"] == "COMMITTED"
    for _ in range(3):
        kill_worker(agent)
    agent.until(lambda: agent.status()["deployment"]["kind"] == "rollback", "the way back")
    agent.serves(old_bundle)


def test_a_deployment_that_is_ready_does_not_wait_for_what_it_replaces(start_agent, make_null_bundle, new_bundle):
    agent = start_agent()
    slow = make_null_bundle(load_ms=4000.0)
    agent.deploy(slow)
    os.kill(agent.settled()["serving"]["pid"], signal.SIGKILL)
    done = agent.deploy(new_bundle)
    assert done["state"] == "COMMITTED", done["reason"]
    told = [e["state"] for e in agent.ask("GET", "/api/v1/events")[2]["events"] if e["kind"] == "worker"]
    assert told == ["CRASHED"]
    agent.serves(new_bundle)


@pytest.mark.parametrize("way", ["cancel", "rollback"])
def test_the_soak_of_a_first_release_can_be_ended(start_agent, old_bundle, way, capsys):
    agent = start_agent()
    number = soaking(agent, old_bundle)
    assert agent.ask("POST", f"/api/v1/{way}")[0] == 202
    assert agent.ended(number)["state"] == "ROLLED_BACK"
    assert agent.status()["state"] == "empty"
    why = f"The release {release_id(old_bundle)} of 'null' was rolled back: "
    status, _, answer = agent.ask("GET", "/v2/health/ready")
    assert (status, why in answer["error"]) == (503, True)
    status, _, answer = agent.ask("POST", "/v2/models/null/infer", "{}")
    assert (status, why in answer["error"]) == (503, True)
    assert "Deploy a bundle that works: edgeopt-agent deploy BUNDLE" in answer["error"]
    status, _, answer = agent.ask("POST", "/v2/models/other/infer", "{}")
    assert (status, why in answer["error"]) == (404, True)
    assert cli.run(["status", "--url", f"127.0.0.1:{agent.port}"]) == 0
    assert why in " ".join(capsys.readouterr().out.split())
    assert agent.deploy(old_bundle)["state"] == "COMMITTED"


@pytest.mark.parametrize("way", ["cancel", "rollback"])
def test_a_slow_upload_gives_way(agent, old_bundle, new_bundle, pack, way):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", agent.port)) as sender:
        sender.putrequest("POST", "/api/v1/deploy")
        sender.putheader("Content-Length", "9999")
        sender.endheaders(b"the first of it")
        running = agent.until(
            lambda: (d := agent.status()["deployment"])["state"] == "RECEIVING" and d, "the upload"
        )
        status, _, answer = agent.ask("POST", f"/api/v1/{way}")
    assert status == 202
    assert agent.ended(running["id"])["state"] == "FAILED"
    agent.ended(answer["deployment"]["id"])
    agent.serves(old_bundle if way == "rollback" else new_bundle)


def test_a_probe_that_hangs_can_be_cancelled_and_is_no_fault(agent, old_bundle, make_null_bundle):
    bad = make_null_bundle(hang="run")
    number = agent.send(bad)[2]["deployment"]["id"]
    agent.until(lambda: agent.status()["deployment"]["state"] == "PROBING", "the probe")
    assert agent.ask("POST", "/api/v1/cancel")[0] == 202
    done = agent.ended(number)
    assert (done["state"], done["reason"]) == ("FAILED", "It was cancelled.")
    agent.serves(old_bundle)
    assert agent.ask("POST", "/api/v1/cancel")[0] == 409
    assert [r["state"] for r in agent.ask("GET", "/api/v1/releases")[2]["releases"]] == ["serving", "refused"]


def test_a_rollback_leads_to_any_release_on_the_disk(agent, old_bundle, new_bundle):
    shutil.copytree(new_bundle, agent.data_dir / "releases" / release_id(new_bundle))
    status, _, answer = agent.ask("POST", f"/api/v1/rollback?to={release_id(new_bundle)}")
    assert status == 202, answer
    assert agent.ended(answer["deployment"]["id"])["state"] == "COMMITTED"
    agent.serves(new_bundle)
    assert agent.status()["previous"] is None
    assert agent.roll_back(to=release_id(old_bundle))["state"] == "COMMITTED"
    agent.serves(old_bundle)
    assert agent.ask("POST", "/api/v1/rollback?to=../partial")[0] == 404


@pytest.fixture
def hook(agent):
    """Writes the hook of the agent that serves the old bundle."""

    def write(*lines, mode=0o700):
        file = agent.data_dir / "hooks" / "before-commit"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(("#!/bin/sh", *lines, "")))
        file.chmod(mode)
        return file

    return write


def test_a_hook_that_agrees_sees_the_release_and_its_soak(agent, hook, old_bundle, new_bundle, tmp_path):
    hook(f"env > '{tmp_path}/seen'", 'test -f "$EDGEOPT_RELEASE_DIR/deployment.toml"')
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines() if "=" in line)
    assert seen["EDGEOPT_RELEASE"] == release_id(new_bundle)
    assert seen["EDGEOPT_PREVIOUS"] == release_id(old_bundle)
    assert seen["EDGEOPT_NAME"] == "null"
    assert int(seen["EDGEOPT_SOAK_REQUESTS"]) >= 3
    assert seen["EDGEOPT_SOAK_ERRORS"] == "0"
    assert float(seen["EDGEOPT_SOAK_SECONDS"]) >= 0.05


@pytest.mark.parametrize(
    ("lines", "mode", "reason"),
    [
        (("echo checking", "echo the camera sees nothing >&2", "exit 3"), 0o700, "the camera sees nothing"),
        (("exit 3",), 0o700, "ended with exit code 3"),
        ((), 0o600, "is not executable"),
        ((), 0o722, "Others may write"),
    ],
)
def test_a_hook_that_does_not_agree_rolls_back_with_its_last_line(
    agent, hook, old_bundle, new_bundle, lines, mode, reason
):
    file = hook(*lines, mode=mode)
    ended = agent.deploy(new_bundle)
    assert ended["state"] == "ROLLED_BACK"
    assert reason in ended["reason"]
    agent.serves(old_bundle)
    file.unlink()
    assert agent.deploy(new_bundle)["state"] == "COMMITTED", "it was the hook's no, not the bundle's fault"


def test_a_hook_does_not_stand_in_the_way_back(agent, hook, old_bundle, new_bundle):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    hook("exit 1")
    assert agent.roll_back()["state"] == "COMMITTED"
    agent.serves(old_bundle)


def test_a_hook_that_takes_too_long_is_ended_with_all_that_it_started(
    start_serving, old_bundle, new_bundle, tmp_path
):
    agent = start_serving(hook_timeout_s=0.5)
    file = agent.data_dir / "hooks" / "before-commit"
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\nsleep 600 & echo $! > '{tmp_path}/pid'\nwait\n")
    file.chmod(0o700)
    ended = agent.deploy(new_bundle)
    assert ended["state"] == "ROLLED_BACK"
    assert "took longer than 0.5 s" in ended["reason"]
    agent.serves(old_bundle)
    with contextlib.suppress(psutil.NoSuchProcess):
        wait_ended([psutil.Process(int((tmp_path / "pid").read_text()))])


def test_cancelling_ends_the_hook(agent, hook, old_bundle, new_bundle, tmp_path):
    hook(f"touch '{tmp_path}/started'", "sleep 600")
    _, _, answer = agent.send(new_bundle)
    agent.until((tmp_path / "started").exists, "the hook")
    assert agent.ask("POST", "/api/v1/cancel")[0] == 202
    assert agent.ended(answer["deployment"]["id"])["state"] == "ROLLED_BACK"
    agent.serves(old_bundle)


# Heartbeats have the limit of a hang, and would judge how busy the machine is.
LIMITS = {"hang_timeout_s": 1.0, "request_timeout_s": 60.0, "heartbeat_s": 600.0}


def ending_requests_post(agent, *values):
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": values}
    status, _, answer = agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))
    return status, answer.get("error", "")


def restarted(agent):
    """Waits until the worker that serves takes requests."""
    agent.until(
        lambda: ending_requests_post(agent, 1, 2, 3, 4)[0] == 200 and agent.status()["serving"], "its worker"
    )


FAULTS = pytest.mark.parametrize("fault", ["crash_on", "hang_on"])


@FAULTS
def test_one_request_neither_rolls_back_nor_ends_the_worker_for_ever(start_serving, make_null_bundle, fault):
    agent = start_serving(**LIMITS)
    new = make_null_bundle(**{fault: -1})
    assert agent.deploy(new)["state"] == "COMMITTED"
    answers = []
    for _ in range(5):
        agent.settled()
        answers.append(ending_requests_post(agent, -1, 2, 3, 4))
    assert [status for status, _ in answers] == [503, 503, 422, 422, 422]
    assert "ended the worker of the release" in answers[-1][1]
    counted = metrics(agent)
    failures = f'nv_inference_request_failure{{model="null",version="{release_id(new)}",reason='
    assert f'{failures}"BACKEND"}} 2.0' in counted
    assert f'{failures}"REJECTED"}} 3.0' in counted
    agent.serves(new)
    found = agent.status()
    assert found["deployment"]["kind"] == "deploy"
    assert found["hangs"] + found["crashes"] == 2


@FAULTS
@pytest.mark.parametrize("first", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_soak_is_judged_by_different_requests_only(start_agent, old_bundle, make_null_bundle, fault, first):
    agent = start_agent(**LIMITS)
    if not first:
        agent.deploy(old_bundle)
    new = make_null_bundle(**{fault: -1})
    number = soaking(agent, new)
    for _ in range(4):
        restarted(agent)
        ending_requests_post(agent, -1, 2, 3, 4)
    assert agent.status()["deployment"]["state"] == "SOAKING"
    for different in range(2):
        restarted(agent)
        ending_requests_post(agent, -1, 2, 3, 10 + different)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "Different requests ended its worker 3 times during the soak" in done["reason"]
    assert agent.deploy(new)["state"] == "COMMITTED"  # clients' requests quarantine nothing


def test_requests_wait_while_a_crashed_worker_starts_again(start_serving, old_bundle):
    agent = start_serving(restart_delay_s=0.5)
    os.kill(agent.settled()["serving"]["pid"], signal.SIGKILL)
    agent.until(lambda: not agent.status()["serving"], "the end of the worker")
    assert post(agent, 1, 2, 3, 4)[0] == 200
    agent.serves(old_bundle)


def test_requests_do_not_wait_for_a_restart_that_is_far_away(start_serving):
    agent = start_serving(restart_delay_s=60.0, restart_delay_most_s=60.0)
    os.kill(agent.settled()["serving"]["pid"], signal.SIGKILL)
    agent.until(lambda: not agent.status()["serving"], "the end of the worker")
    assert post(agent, 1, 2, 3, 4)[0] == 503


def test_a_worker_that_is_ready_in_the_step_in_which_its_model_is_removed_ends(old_bundle, settings, monkeypatch):
    release, data = release_id(old_bundle), DataDir(settings.data_dir)
    data.make()
    shutil.copytree(old_bundle, data.release(release))
    point(data.current, release)

    async def run():
        started = []

        async def start_checked(*its):
            found = await probing.start_checked(*its)
            started.append(found[0])
            # As a removal does, after the end of the start and before the supervisor goes on.
            asyncio.get_running_loop().call_soon(slots.first.working.cancel)
            return found

        monkeypatch.setattr(supervisor, "start_checked", start_checked)
        slots = Slots(settings, data, None)
        slots.start(lambda _slot: None)
        await asyncio.gather(slots.first.working, return_exceptions=True)
        await slots.stop(0.0)
        await slots.close()
        (worker,) = started
        left = not worker.ended.is_set()
        await worker.stop(0.0)
        assert not left

    asyncio.run(run())
