"""Every deployment can be ended, and every release on the disk can come back."""

import contextlib
import http.client
import shutil

import pytest

from edgeopt_agent import main as cli
from edgeopt_agent.releases import release_id
from tests.agent.deployments.soaks import soaking


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
    assert answer["error"].endswith("Deploy a bundle that works: edgeopt-agent deploy BUNDLE")
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
