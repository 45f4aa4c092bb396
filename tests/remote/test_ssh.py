"""Commands on a device behind a real SSH server on loopback."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from edgeopt.remote import far
from edgeopt.remote.address import read_address
from edgeopt.remote.command import opened
from tests.measuring import DEADLINE_S, wait_until
from tests.ports import free_port


def one_core():
    return str(min(os.sched_getaffinity(0)))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores are bound on Linux only")
def test_facts_are_those_of_the_device(make_server, call):
    server = make_server("taskset", "-c", one_core())
    code, event = call("probe", "--on", server.address)
    assert (code, event["kind"], event["data"]["limits"]["usable_cores"]) == (0, "probe", 1)
    assert not (server.far_folder / "runs").exists()


def test_benchmark_comes_back_with_its_saved_report(server, call, model, tmp_path):
    save = tmp_path / "run.json"
    code, event = call(
        *("bench", model, "--data", tmp_path / "d.npz", "--rounds", 6, "--time-limit", 1),
        *("--save", save, "--on", server.address),
    )
    assert (code, event["kind"]) == (0, "bench"), event
    assert str(server.far_folder) not in json.dumps(event) + save.read_text()
    assert json.loads(save.read_text())
    assert len(list((server.far_folder / "blobs").iterdir())) == 3  # edgeopt, the model, the data
    assert not (server.far_folder / "runs").exists()


def test_error_of_the_device_is_the_error_here(server, call):
    code, event = call("bench", "nothing.onnx", "--on", server.address)
    assert (code, event["code"]) == (3, "bad-model")
    assert "no model or bundle at 'nothing.onnx'" in event["message"]


def test_busy_device_says_who_measures(server, call):
    link = opened(read_address(server.address))
    try:
        link.ask({"do": "begin", "run": "1", "owner": {"who": "ada@laptop", "what": "edgeopt bench"}})
        code, event = call("probe", "--on", server.address)
        assert code == 5
        assert "is busy with 'edgeopt bench' of ada@laptop since" in event["message"]
    finally:
        link.close()
    with closing(opened(read_address(server.address))) as again:
        assert again.ask({"do": "begin", "run": "2", "owner": {}})["begun"]


@pytest.mark.parametrize(
    ("key", "known_hosts", "words"),
    [
        ("host_key", "known_hosts", "accepts none of your SSH keys"),
        ("key", "empty", "host key of .* is not known"),
    ],
)
def test_refused_connection_says_why(server, call, monkeypatch, key, known_hosts, words):
    monkeypatch.setenv("EDGEOPT_SSH", server.client(key, known_hosts))
    code, event = call("probe", "--on", server.address)
    assert code == 5
    assert re.search(words, event["message"]), event


def test_missing_server_and_missing_python_are_told(server, call):
    _, event = call("probe", "--on", f"ssh://127.0.0.1:{free_port()}")
    assert "refuses SSH connections" in event["message"]
    _, event = call("probe", "--on", server.address.replace(sys.executable, "/no/python"))
    assert "has no '/no/python'" in event["message"], event


LONG = {
    "bench": ("--duty", "sustained", "--minutes", "5", "--save", "run.json"),
    "optimize": ("--data", "d.npz", "-o", "m.edgeopt", "--time-limit", "300"),
}
BEFORE = ("connecting", "installing", "copying")
"""Phases in which the command does not run yet."""


@pytest.mark.parametrize("command", ["optimize", pytest.param("bench", marks=pytest.mark.slow)])
def test_device_that_vanishes_is_told_and_nothing_is_left(server, model, tmp_path, command):
    words = [command, model, *LONG[command]]
    with subprocess.Popen(
        [sys.executable, "-m", "edgeopt", *words, "--on", server.address, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        for line in process.stdout:
            if not json.loads(line)["phase"].startswith(BEFORE):
                break
        assert server.far_processes()
        server.vanish()
        event = json.loads(process.stdout.readlines()[-1])
        assert process.wait(DEADLINE_S) == 1
    assert event["code"] == "trial-failed"
    assert "The connection to " in event["message"]
    wait_until(lambda: not server.far_processes() and not (server.far_folder / "runs").exists())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.npz", "m.onnx"]


def test_users_of_a_machine_share_its_lock(make_server, call, tmp_path):
    other = make_server(lock=tmp_path / "lock")
    with closing(opened(read_address(other.address))) as link:
        link.ask({"do": "begin", "run": "1", "owner": {"who": "ada@laptop", "what": "edgeopt bench"}})
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666
        mine = make_server(lock=tmp_path / "lock")
        code, event = call("probe", "--on", mine.address)
    assert (code, mine.far_folder == other.far_folder) == (5, False)
    assert "is busy with 'edgeopt bench' of ada@laptop" in event["message"]


def test_lock_of_the_machine_follows_no_link(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "lock").symlink_to(victim)
    monkeypatch.setenv("EDGEOPT_LOCK", str(tmp_path / "lock"))
    (tmp_path / "far").mkdir()
    with far.open_lock(tmp_path / "far") as lock:
        assert lock.name == str(tmp_path / "far" / "lock")
    assert victim.read_text() == "mine"


@pytest.mark.slow
def test_search_gives_the_verdict_of_the_device(make_server, call, model, tmp_path):
    server = make_server("taskset", "-c", one_core())
    out = tmp_path / "m.edgeopt"
    code, event = call(
        *("optimize", model, "--data", tmp_path / "d.npz", "-o", out, "--time-limit", 8, "--on", server.address)
    )
    assert code == 0, event
    assert event["data"]["bundle"] == str(out)
    assert event["data"]["device"]["limits"]["usable_cores"] == 1
    assert event["data"]["proof"]["speedup"]["median"] > 0
    for file in out.rglob("*"):
        assert file.is_dir() or str(server.far_folder).encode() not in file.read_bytes()
    assert call("verify", out)[0] in {0, 6}
    assert not server.far_processes()


def test_interrupt_ends_the_command_on_the_device(server, model):
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "edgeopt",
            "bench",
            model,
            "--duty",
            "sustained",
            "--minutes",
            "5",
            "--on",
            server.address,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr:
            if "loading" in line or "measuring" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
    wait_until(lambda: not server.far_processes() and not (server.far_folder / "runs").exists())
