"""Measurements through a real agent: what works, what is refused, and what is left behind."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from edgeopt.cli.main import run
from edgeopt.errors import EdgeoptError, MissingError
from edgeopt.remote.address import read_address
from edgeopt.remote.command import opened
from edgeopt.version import __version__
from edgeopt_agent import pairing, tokens
from tests.measuring import DEADLINE_S, wait_until
from tests.processes import wait_ended


def nothing_left(agent):
    return (
        not [each for each in agent.workers() if is_trial(each)]
        and not (agent.data_dir / "trials/work/runs").exists()
    )


def is_trial(process):
    try:
        return "edgeopt_agent.trials.child" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def long_bench(url, model):
    words = ["bench", model, "--duty", "sustained", "--minutes", "5", "--on", url, "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgeopt", *words], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    for line in process.stdout:
        if not json.loads(line)["phase"].startswith(("connecting", "installing", "copying")):
            return process
    raise AssertionError(process.wait())


def test_agent_measures_nothing_unless_it_is_allowed(start_agent, call):
    code, event = call("probe", "--on", f"http://127.0.0.1:{start_agent().port}")
    assert (code, event["code"]) == (6, "trials-off")
    assert "trials = true" in event["hint"]


def test_benchmark_comes_back_with_its_saved_report(agent, call, model, tmp_path, url):
    save = tmp_path / "run.json"
    words = "bench", model, "--data", tmp_path / "d.npz", "--rounds", 6, "--time-limit", 1, "--save", save
    code, event = call(*words, "--on", url)
    assert (code, event["kind"]) == (0, "bench"), event
    assert str(agent.data_dir) not in json.dumps(event) + save.read_text()
    assert len(list((agent.data_dir / "trials" / "blobs").iterdir())) == 2
    assert nothing_left(agent)


@pytest.mark.slow
def test_search_writes_its_bundle_here(agent, call, model, tmp_path, url):
    out = tmp_path / "m.edgeopt"
    words = "optimize", model, "--data", tmp_path / "d.npz", "-o", out, "--time-limit", 8
    code, event = call(*words, "--on", url)
    assert code == 0, event
    for file in out.rglob("*"):
        assert file.is_dir() or str(agent.data_dir).encode() not in file.read_bytes()
    assert call("verify", out)[0] in {0, 6}


def test_paired_machine_measures_over_tls_with_the_role_deploy_only(start_agent, call, capsys, monkeypatch):
    agent = start_agent(trials=True, tls="on")
    there = f"https://127.0.0.1:{agent.port}"
    code = pairing.new_code(agent.data_dir, "laptop", "deploy").code
    assert run(["fleet", "pair", "--url", there, "--code", code]) == 0
    capsys.readouterr()
    assert call("probe", "--on", there)[0] == 0
    monkeypatch.setenv("EDGEOPT_TOKEN", tokens.add(agent.data_dir, "camera", "infer").token)
    code, event = call("probe", "--on", there)
    assert (code, event["code"]) == (3, "wrong-role")


def test_one_measurement_at_a_time(agent, link, call, url):
    code, event = call("probe", "--on", url)
    assert (code, event["code"]) == (4, "busy")
    link.close()
    assert call("probe", "--on", url)[0] == 0


def test_release_that_serves_is_left_in_peace(agent, call, old_bundle, url):
    agent.deploy(old_bundle)
    agent.settled()
    code, event = call("probe", "--deep", "--on", url)
    assert (code, event["code"]) == (4, "serving")
    assert "beside_serving=1" in event["hint"]
    agent.serves(old_bundle)


def test_facts_of_a_device_that_serves_are_read(agent, call, old_bundle, url):
    agent.deploy(old_bundle)
    agent.settled()
    assert call("probe", "--on", url)[0] == 0
    agent.serves(old_bundle)


@pytest.mark.parametrize("words", [["probe", "--deep", "--json"], ["bench", "a.onnx", "--json"]])
def test_session_that_reads_facts_measures_nothing(agent, old_bundle, url, words):
    agent.deploy(old_bundle)
    agent.settled()
    with closing(opened(read_address(url), probes=True)) as link:
        link.ask({"do": "begin", "run": "1", "owner": {"who": "ada@laptop", "what": "edgeopt probe"}})
        link.ask({"do": "install", "version": __version__})
        with pytest.raises(EdgeoptError, match="only reads the facts"):
            link.ask({"do": "run", "arguments": words, "files": [], "python": "", "code": "", "environment": {}})


def test_deployment_ends_a_measurement_with_a_sentence(agent, model, old_bundle, url):
    with long_bench(url, model) as process:
        agent.deploy(old_bundle)
        event = json.loads(process.stdout.readlines()[-1])
        assert process.wait(DEADLINE_S) == 4
    assert "A deployment began" in event["message"]
    wait_until(lambda: nothing_left(agent))
    agent.serves(old_bundle)


def test_client_that_goes_away_leaves_nothing(agent, model, url):
    with long_bench(url, model) as process:
        started = [each for each in below(agent) if is_trial(each)]
        started += [each for program in started for each in program.children(recursive=True)]
        process.kill()
    assert len(started) > 1
    wait_until(lambda: nothing_left(agent))
    wait_ended(started)


def test_measurement_is_confined_with_all_that_it_starts(agent, model, url):
    with long_bench(url, model) as process:
        (trial,) = [each for each in below(agent) if is_trial(each)]
        started = trial.children(recursive=True)
        assert started
        for each in started:
            status = Path(f"/proc/{each.pid}/status").read_text()
            assert "NoNewPrivs:\t1" in status, each
        process.kill()
    wait_until(lambda: nothing_left(agent))


def below(agent):
    return psutil.Process(agent.process.pid).children(recursive=True)


def test_agent_that_is_killed_is_told_and_leaves_nothing(agent, model, url):
    with long_bench(url, model) as process:
        children = [each for each in below(agent) if is_trial(each)]
        agent.process.kill()
        event = json.loads(process.stdout.readlines()[-1])
        assert process.wait(DEADLINE_S) == 1
    assert "was lost" in event["message"]
    wait_until(lambda: not (agent.data_dir / "trials/work/runs").exists())
    wait_ended(children)


def test_agent_stops_in_time_during_a_measurement(agent, model, url):
    with long_bench(url, model) as process:
        agent.stop()
        assert process.wait(DEADLINE_S) == 1
    wait_until(lambda: not (agent.data_dir / "trials/work/runs").exists())


def test_interrupt_ends_the_command_on_the_device(agent, model, url):
    with long_bench(url, model) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
    wait_until(lambda: nothing_left(agent))


def test_other_version_is_told(link):
    link.send({"do": "install", "version": "0.0.0"})
    with pytest.raises(MissingError, match=r"this one is 0\.0\.0"):
        link.answer()
