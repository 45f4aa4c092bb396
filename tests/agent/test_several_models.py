"""Several models on one agent: added, asked by name, replaced, removed and started again, each by itself."""

import errno
import json
import shutil
import signal
import threading
from contextlib import closing, contextmanager
from http.client import HTTPConnection

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.errors import DiskFullError, EdgeoptError
from edgeopt.events import Metric, Progress, ignore
from edgeopt.fleet.telemetry import watch
from edgeopt_agent import trusted_keys
from edgeopt_agent.data_dir import DataDir, added_models, sweep_removed
from edgeopt_agent.main import run
from tests.agent.deployments.soaks import soaking
from tests.ports import free_port

X = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}


@pytest.fixture(scope="session")
def other_bundle(make_null_bundle):
    return make_null_bundle(name="other")


@pytest.fixture(scope="session")
def pair_place(tmp_path_factory):
    return tmp_path_factory.mktemp("pair") / "agent"


@pytest.fixture
def pair(pair_place, start_serving, start_agent, other_bundle, tmp_path):
    """An agent that serves 'null' and, added, 'other', from a folder that is made once."""
    if not pair_place.exists():
        agent = start_serving()
        done = agent.deploy(other_bundle, add=1)
        assert (done["state"], done["model"]) == ("COMMITTED", "other"), done["reason"]
        agent.stop()
        shutil.move(agent.data_dir, pair_place)
    agent = start_agent(shutil.copytree(pair_place, tmp_path / "agent", symlinks=True))
    agent.until(lambda: all(each["state"] == "serving" for each in agent.status()["models"]), "both models")
    return agent


def infer(agent, name):
    """The status of a request to a model, and what is said."""
    status, _, answer = agent.ask("POST", f"/v2/models/{name}/infer", json.dumps({"inputs": [X]}))
    return status, answer.get("error", "")


def figures(agent):
    with closing(HTTPConnection("127.0.0.1", agent.port)) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def both_serve(agent):
    def found():
        return all(model["state"] == "serving" for model in agent.status()["models"])

    agent.until(found, "both models")
    assert [infer(agent, name)[0] for name in ("null", "other")] == [200, 200]


def test_an_added_model_serves_beside_the_first_one(pair, old_bundle, other_bundle):
    both_serve(pair)
    found = pair.status()
    assert found["serving"]["release"] == release_id(old_bundle)
    names = [(model["name"], model["serving"]["release"]) for model in found["models"]]
    assert names == [("null", release_id(old_bundle)), ("other", release_id(other_bundle))]
    assert pair.status("other")["serving"]["name"] == "other"
    assert [m["name"] for m in pair.ask("POST", "/v2/repository/index")[2]] == ["null", "other"]
    for name in ("null", "other"):
        assert pair.ask("GET", f"/v2/models/{name}")[2]["name"] == name
        assert pair.ask("GET", f"/v2/models/{name}/ready")[0] == 200
        stats = pair.ask("GET", f"/v2/models/{name}/stats")[2]["model_stats"]
        assert [(each["name"], each["inference_stats"]["success"]["count"]) for each in stats] == [(name, 1)]


def test_what_does_not_serve_is_answered_with_what_does(pair, other_bundle):
    status, said = infer(pair, "third")
    assert (status, said) == (404, "There is no model 'third'; those deployed here are 'null', 'other'.")
    assert infer(pair, "other/versions/abc") == (
        404,
        f"There is no version 'abc' of 'other'; the one that serves is '{release_id(other_bundle)}'.",
    )
    assert infer(pair, f"other/versions/{release_id(other_bundle)}")[0] == 200
    status, _, answer = pair.ask("GET", "/api/v1/status?model=third")
    assert (status, answer["error"]["code"]) == (404, "no-model")


def test_figures_name_the_model(pair):
    both_serve(pair)
    found = figures(pair)
    for name in ("null", "other"):
        assert f'nv_inference_request_success{{model="{name}"' in found
        assert f'edgeopt_deployment_state{{model="{name}"' in found
        assert f'edgeopt_process_memory_bytes{{process="worker",model="{name}"}}' in found


def test_a_bundle_goes_to_the_model_of_its_name(pair, null_bundle, old_bundle):
    newer = null_bundle("other", outputs=({"name": "y", "dtype": "float32", "shape": ["batch", 3]},))
    done = pair.deploy(newer)
    assert (done["state"], done["model"], done["old"]) == (
        "COMMITTED",
        "other",
        pair.status("other")["previous"]["release"],
    )
    assert pair.status("other")["serving"]["release"] == release_id(newer)
    assert pair.status()["serving"]["release"] == release_id(old_bundle)
    refused = pair.deploy(null_bundle("third"))
    assert (refused["state"], refused["model"]) == ("FAILED", "")
    assert "--add" in refused["reason"]
    both_serve(pair)


def test_a_name_is_added_once_and_no_more_models_than_allowed(start_agent, old_bundle, other_bundle, null_bundle):
    agent = start_agent(max_models=3)
    assert agent.deploy(old_bundle, add=1)["model"] == ""  # nothing serves yet that it could be beside
    agent.deploy(other_bundle, add=1)
    status, _, answer = agent.send(other_bundle, add=1)
    assert (status, answer["error"]["code"]) == (409, "name-taken")
    assert agent.deploy(null_bundle("third"), add=1)["state"] == "COMMITTED"
    fourth = null_bundle("fourth")
    status, _, answer = agent.send(fourth, add=1)
    assert (status, answer["error"]["code"]) == (409, "too-many-models")
    assert "`max_models` is 3" in answer["error"]["message"]
    assert agent.ask("POST", "/api/v1/remove?model=other")[0] == 200
    assert agent.deploy(fourth, add=1)["state"] == "COMMITTED"


def test_an_added_model_that_fails_gives_way_and_harms_nothing(start_agent, old_bundle, null_bundle):
    agent = start_agent(max_models=2)
    agent.deploy(old_bundle)
    failed = agent.deploy(null_bundle("bad", fail="load"), add=1)
    assert failed["state"] == "FAILED"
    assert failed["model"] == "bad"
    assert agent.ask("GET", "/v2/health/ready")[0] == 200
    assert [m["name"] for m in agent.ask("POST", "/v2/repository/index")[2]] == ["null"]
    agent.stop()
    agent = start_agent(max_models=2)
    agent.settled()
    assert [(model["name"], model["state"]) for model in agent.status()["models"]] == [
        *(("null", "serving"), ("bad", "empty"))
    ]
    assert agent.deploy(null_bundle("good"), add=1)["state"] == "COMMITTED"
    assert [model["name"] for model in agent.status()["models"]] == ["null", "good"]


def test_model_whose_folder_a_killed_agent_made_in_part_can_be_deployed(start_serving, start_agent, other_bundle):
    agent = start_serving()
    agent.stop()
    DataDir(agent.data_dir).of_model("other").partial.mkdir(parents=True)
    again = start_agent(agent.data_dir)
    done = again.deploy(other_bundle, add=1)
    assert (done["state"], done["model"]) == ("COMMITTED", "other"), done["reason"]


def test_models_are_deployed_and_taken_back_independently(pair, new_bundle, old_bundle, null_bundle):
    number = soaking(pair, new_bundle)
    assert pair.send(new_bundle)[2]["error"]["code"] == "busy"
    newer = null_bundle("other", outputs=({"name": "y", "dtype": "float32", "shape": ["batch", 3]},))
    assert pair.deploy(newer)["state"] == "COMMITTED"  # while the first one soaks
    status, _, answer = pair.ask("POST", "/api/v1/rollback?model=other")
    assert status == 202
    assert pair.ended(answer["deployment"]["id"], "other")["state"] == "COMMITTED"
    assert pair.status()["deployment"]["state"] == "SOAKING"
    assert pair.ask("POST", "/api/v1/cancel?model=other")[2]["error"]["code"] == "nothing-to-cancel"
    assert pair.ask("POST", "/api/v1/cancel")[2]["deployment"]["id"] == number
    assert pair.ended(number)["state"] == "ROLLED_BACK"
    both_serve(pair)
    assert pair.status()["serving"]["release"] == release_id(old_bundle)
    listed = pair.ask("GET", "/api/v1/releases?model=other")[2]["releases"]
    assert {release["name"] for release in listed} == {"other"}


def test_a_slow_sender_keeps_no_other_model_from_its_deployment(pair, null_bundle):
    with closing(HTTPConnection("127.0.0.1", pair.port)) as slow:
        slow.putrequest("POST", "/api/v1/deploy?add=1")
        slow.putheader("Content-Length", "1000")
        slow.endheaders(b"PK")
        pair.until(lambda: list((pair.data_dir / "partial").iterdir()), "the first bytes")
        assert pair.deploy(null_bundle("third"), add=1)["state"] == "COMMITTED"
    pair.until(lambda: not list((pair.data_dir / "partial").iterdir()), "the end of what was not received")


def test_both_serve_again_after_a_kill_each_with_its_own_journal(pair, start_agent, new_bundle):
    number = soaking(pair, new_bundle)
    pair.process.send_signal(signal.SIGKILL)
    pair.process.wait()
    again = start_agent()
    assert again.until(lambda: again.status("other")["serving"], "the added model")["name"] == "other"
    assert again.status()["deployment"]["id"] == number
    again.ask("POST", "/api/v1/cancel")
    assert again.ended(number)["state"] == "ROLLED_BACK"
    both_serve(again)
    for model, count in (("", 2), ("other", 1)):
        events = again.ask("GET", f"/api/v1/events?model={model}")[2]["events"]
        assert max(event["deployment"] for event in events) == count


def test_a_worker_that_dies_leaves_the_other_model_alone(start_serving, other_bundle):
    agent = start_serving(restart_delay_s=3.0, restart_delay_most_s=3.0)
    agent.deploy(other_bundle, add=1)
    first, other = (model["serving"]["pid"] for model in agent.status()["models"])
    psutil.Process(other).kill()
    agent.until(lambda: agent.status("other")["serving"] is None, "the crash")
    assert infer(agent, "null")[0] == 200
    status, said = infer(agent, "other")
    assert (status, "was killed" in said) == (503, True)
    status, _, answer = agent.ask("GET", "/v2/health/ready")
    assert (status, "'other' does not serve" in answer["error"]) == (503, True)
    assert agent.ask("GET", "/v2/models/null/ready")[0] == 200
    both_serve(agent)
    assert agent.ask("GET", "/v2/health/ready")[0] == 200
    assert agent.status()["serving"]["pid"] == first
    states = {event["state"] for event in agent.ask("GET", "/api/v1/events")[2]["events"]}
    assert "CRASHED" not in states


def test_a_full_queue_of_one_model_keeps_nobody_out_of_the_other(start_serving, other_bundle):
    agent = start_serving(queue_length=1)
    agent.deploy(other_bundle, add=1)
    worker = psutil.Process(agent.status("other")["serving"]["pid"])
    worker.suspend()
    waiting = threading.Thread(target=infer, args=(agent, "other"))
    waiting.start()
    try:
        pending = f'nv_inference_pending_request_count{{model="other",version="{release_id(other_bundle)}"}} 1.0'
        agent.until(lambda: pending in figures(agent), "a full queue")
        assert infer(agent, "other")[0] == 503
        assert infer(agent, "null")[0] == 200
    finally:
        worker.resume()
        waiting.join()


def test_a_removed_model_is_gone_for_good(pair, start_agent):
    status, _, answer = pair.ask("POST", "/api/v1/remove?model=null")
    assert (status, answer["error"]["code"]) == (409, "first-model")
    worker = psutil.Process(pair.status("other")["serving"]["pid"])
    assert pair.ask("POST", "/api/v1/remove?model=other")[2]["removed"] == "other"
    assert not worker.is_running()
    assert infer(pair, "other")[0] == 404
    assert infer(pair, "null")[0] == 200
    assert list((pair.data_dir / "models").iterdir()) == []
    pair.stop()
    again = start_agent()
    again.settled()
    assert [model["name"] for model in again.status()["models"]] == ["null"]


def test_a_model_that_is_deploying_is_not_removed(pair, null_bundle):
    newer = null_bundle("other", outputs=({"name": "y", "dtype": "float32", "shape": ["batch", 3]},))
    soaking(pair, newer)
    status, _, answer = pair.ask("POST", "/api/v1/remove?model=other")
    assert (status, answer["error"]["code"]) == (409, "busy")
    assert "edgeopt-agent cancel --model other" in answer["error"]["hint"]


def test_a_removal_that_was_interrupted_ends_at_the_next_start(tmp_path):
    data = DataDir(tmp_path)
    for name in ("kept", "a/b", "gone"):
        data.of_model(name).make()
    data.of_model("gone").removed.touch()
    assert added_models(data) == ["a/b", "kept"]
    sweep_removed(data)
    assert added_models(data) == ["a/b", "kept"]
    assert not data.of_model("gone").root.exists()


def test_the_commands_reach_each_model(pair, null_bundle, capsys):
    url = f"127.0.0.1:{pair.port}"

    def ask(*arguments):
        code = run([*map(str, arguments), "--url", url])
        out, err = capsys.readouterr()
        return code, out or err

    third = null_bundle("third")
    code, out = ask("deploy", third, "--add", "--soak-seconds", 0, "--soak-requests", 0)
    assert (code, "of third" in out) == (0, True)
    code, out = ask("status")
    assert (code, f"Model third: serving (release {release_id(third)})" in out) == (0, True)
    code, out = ask("status", "--model", "third")
    assert (code, "Serving: third" in out, "Model" in out) == (0, True, False)
    code, out = ask("releases", "--model", "third")
    assert (code, release_id(third) in out) == (0, True)
    folder = ("--data-dir", str(pair.data_dir))
    assert run(["pin", release_id(third), "--model", "third", *folder]) == 0
    assert run(["pin", release_id(third), "--model", "fourth", *folder]) == 3
    capsys.readouterr()
    assert "pinned" in ask("releases", "--model", "third")[1]
    code, out = ask("rollback", "--model", "third")
    assert (code, "no other is on the device" in out) == (4, True)
    code, out = ask("remove", "third")
    assert (code, "third was removed" in out) == (0, True)
    assert "Model third" not in ask("status")[1]


def test_live_figures_are_those_of_the_model_that_is_watched(pair, other_bundle):
    assert pair.deploy(other_bundle)["state"] == "COMMITTED"
    found, stop = [], threading.Event()

    def tell(event):
        found.append(event)
        if isinstance(event, Metric) and event.name == "throughput_per_s" and event.value:
            stop.set()

    with sending(pair, "other"):
        watch(f"http://127.0.0.1:{pair.port}", tell, stop, model="other")
    assert {event.subject for event in found if isinstance(event, Metric)} == {"other"}
    assert any(isinstance(event, Progress) and event.message.startswith("other") for event in found)


@contextmanager
def sending(agent, name):
    """Requests one after the other, from a thread."""
    end = threading.Event()

    def send():
        while not end.is_set():
            infer(agent, name)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_grpc_leads_to_each_model_too(start_serving, other_bundle):
    port = free_port()
    agent = start_serving(grpc_port=port)
    agent.deploy(other_bundle, add=1)
    x = triton.InferInput("x", [1, 4], "FP32")
    x.set_data_from_numpy(np.ones((1, 4), np.float32))
    with closing(triton.InferenceServerClient(f"127.0.0.1:{port}")) as client:
        for name in ("null", "other"):
            assert client.infer(name, [x]).get_response().model_name == name
            assert client.is_model_ready(name)
            assert client.get_model_metadata(name).name == name
        assert [model.name for model in client.get_model_repository_index().models] == ["null", "other"]
        with pytest.raises(InferenceServerException, match="those deployed here are 'null', 'other'"):
            client.infer("third", [x])


def test_watching_a_model_that_is_not_there_is_an_error(pair):
    with pytest.raises(EdgeoptError, match="no model of this name"):
        watch(f"http://127.0.0.1:{pair.port}", ignore, threading.Event(), model="third")


def test_a_disk_that_fails_while_a_model_is_added_is_told(start_agent, old_bundle, other_bundle):
    start = start_agent()
    start.deploy(old_bundle)
    start.stop()
    agent = start_agent(broken={"step": "receive", "number": errno.ENOSPC})
    agent.settled()
    status, _, answer = agent.send(other_bundle, add=1)
    assert (status, answer["error"]["code"]) == (507, DiskFullError.code)
    assert list((agent.data_dir / "partial").iterdir()) == []
    assert infer(agent, "null")[0] == 200


def test_a_full_disk_where_an_added_model_makes_its_folder_is_told(start_serving, other_bundle):
    agent = start_serving(broken={"step": "add", "number": errno.ENOSPC})
    status, _, answer = agent.send(other_bundle, add=1)
    error = answer["error"]
    assert (status, error["code"], error["hint"]) == (507, DiskFullError.code, "Free some space on the device.")
    assert error["message"] == "The model 'other' could not be added: No space left on device."
    assert (
        list((agent.data_dir / "models").iterdir()) == []
    )  # the next start must not find a model without a bundle
    assert list((agent.data_dir / "partial").iterdir()) == []
    assert infer(agent, "null")[0] == 200


def test_a_disk_that_fails_where_a_model_is_removed_is_told_and_the_model_serves_on(pair):
    mark = DataDir(pair.data_dir).of_model("other").removed
    mark.mkdir()  # no file can take its place
    status, _, answer = pair.ask("POST", "/api/v1/remove?model=other")
    error = answer["error"]
    assert (status, error["code"]) == (500, "disk-failed")
    assert error["message"] == "The model 'other' could not be removed: Is a directory."
    both_serve(pair)
    mark.rmdir()
    assert pair.ask("POST", "/api/v1/remove?model=other")[0] == 200


def test_who_waits_for_the_events_of_a_model_is_let_go_when_it_is_removed(pair):
    answers = []
    path = "/api/v1/events?model=other&wait_s=30&after=100"
    waiting = threading.Thread(target=lambda: answers.append(pair.ask("GET", path)))
    waiting.start()
    connected = psutil.Process(pair.process.pid).net_connections
    pair.until(lambda: len(connected("tcp")) > 2, "the connection")
    assert pair.ask("POST", "/api/v1/remove?model=other")[0] == 200
    waiting.join(10)
    assert answers[0][0] == 200


def test_no_way_back_leads_to_a_name_that_another_model_has(start_serving, null_bundle):
    agent = start_serving()
    assert agent.deploy(null_bundle("third"), rename=1)["state"] == "COMMITTED"
    assert agent.deploy(null_bundle("null"), add=1)["model"] == "null"
    status, _, answer = agent.ask("POST", "/api/v1/rollback")
    assert (status, answer["error"]["code"]) == (409, "name-taken")
    assert "edgeopt-agent remove null" in answer["error"]["hint"]
    assert agent.ask("POST", "/api/v1/remove?model=null")[0] == 200
    assert agent.roll_back()["name"] == "null"


def test_the_doctor_looks_at_each_model(pair, capsys):
    pair.stop()
    data = DataDir(pair.data_dir).of_model("other")
    assert run(["doctor", "--port", "0", "--data-dir", str(pair.data_dir)]) == 0
    assert "journal of other" in capsys.readouterr().out
    data.journal.write_bytes(b"damaged" * 1000)
    assert run(["doctor", "--port", "0", "--data-dir", str(pair.data_dir)]) == 3
    said = " ".join(capsys.readouterr().out.split())  # a long path leaves less room in its line
    assert f"{data.journal} is damaged" in said


def test_a_start_with_a_damaged_journal_of_one_model_serves_both(pair, start_agent):
    pair.stop()
    DataDir(pair.data_dir).of_model("other").journal.write_bytes(b"damaged" * 1000)
    again = start_agent()
    both_serve(again)
    assert "damaged" in again.status("other")["reason"]
    assert again.status()["reason"] == ""


@pytest.fixture
def releases(pair, other_bundle, tmp_path):
    """The bundle of the added model signed with the numbers 5 and 7, by a key that the agent trusts."""
    new_key(tmp_path / "key")
    trusted_keys.add(pair.data_dir, tmp_path / "key.pub")
    found = []
    for number in (5, 7):
        found.append(shutil.copytree(other_bundle, tmp_path / f"{number}.edgeopt"))
        sign_bundle(found[-1], tmp_path / "key", number)
    return found


def test_a_removed_model_does_not_come_back_older(pair, releases, start_agent):
    older, newer = releases
    assert pair.ask("POST", "/api/v1/remove?model=other")[0] == 200
    assert pair.deploy(newer, add=1)["state"] == "COMMITTED"
    assert pair.ask("POST", "/api/v1/remove?model=other")[0] == 200
    refused = pair.deploy(older, add=1)
    assert (refused["state"], refused["detail"]["refused"]) == ("FAILED", "downgrade"), refused["reason"]
    refused = pair.deploy(older, rename=1)  # it does not take the place of the first model either
    assert (refused["state"], refused["detail"]["refused"]) == ("FAILED", "downgrade"), refused["reason"]
    pair.stop()
    again = start_agent(pair.data_dir)
    again.settled()
    refused = again.deploy(older, add=1)
    assert (refused["detail"]["refused"], refused["detail"]["highest_sequence"]) == ("downgrade", 7)
    assert again.deploy(older, add=1, allow_downgrade=1)["state"] == "COMMITTED"


def test_a_damaged_floor_lets_nothing_older_in(pair, releases):
    older, newer = releases
    assert pair.ask("POST", "/api/v1/remove?model=other")[0] == 200
    assert pair.deploy(newer, add=1)["state"] == "COMMITTED"
    assert pair.ask("POST", "/api/v1/remove?model=other")[0] == 200
    (floor,) = DataDir(pair.data_dir).floors.iterdir()
    floor.write_text("seven")
    refused = pair.deploy(older, add=1)
    assert refused["state"] == "FAILED"
    assert "--allow-downgrade" in refused["reason"]
    assert pair.deploy(newer, add=1, allow_downgrade=1)["state"] == "COMMITTED"
    assert pair.ask("POST", "/api/v1/remove?model=other")[0] == 200
    assert floor.read_text() == "7"
