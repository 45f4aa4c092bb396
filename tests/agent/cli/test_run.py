import json
import logging
import shlex
import signal
import socket
import sys
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from edgeopt import errors
from edgeopt.bundle.sign import new_key
from edgeopt.events import ignore
from edgeopt.fleet.client import Agent
from edgeopt_agent import tokens, trusted_keys
from edgeopt_agent.cli.run import MODULES, _limit_refusals, _Lines
from edgeopt_agent.systemd import FAILED_START_PAUSE_S
from tests.ports import free_port

ROOT = Path(__file__).parents[3]
WITHIN_S = 30


def test_three_lines_say_where_it_is_and_what_next(start, tmp_path):
    process = start()
    lines = [process.stdout.readline() for _ in range(3)]
    url = lines[0].split()[3].rstrip(",")
    assert lines[0].startswith("edgeopt-agent listens at http://127.0.0.1:")
    assert "unsigned" in lines[0]
    assert lines[1].split() == ["data", "folder:", str(tmp_path / "state" / "edgeopt")]
    state = shlex.quote(str(tmp_path / "state" / "edgeopt"))
    assert lines[2].split(maxsplit=2)[2] == f"edgeopt-agent deploy BUNDLE --data-dir {state}\n"
    assert Agent(url).status().state == "empty"
    assert len(list((tmp_path / "state" / "edgeopt").iterdir())) > 0


def test_a_key_is_added_to_the_agent_that_says_how(start, tmp_path):
    process = start("--data-dir", tmp_path / "my agent")
    said = process.stdout.readline()
    command = said[said.index("(") + 1 : said.rindex(")")]
    assert shlex.split(command)[-2:] == ["--data-dir", str(tmp_path / "my agent")]
    refused = start("--data-dir", tmp_path / "other's", "--host", "0.0.0.0")  # noqa: S104 - refused
    _, err = refused.communicate(timeout=60)
    place = shlex.quote(f"{tmp_path}/other's")
    assert f"trust add KEY.pub --data-dir {place};" in err
    assert f"token add NAME --role deploy --data-dir {place}; then: " in err


def test_it_says_where_it_serves_by_grpc(start, conv_bundle):
    port = free_port()
    process = start("--grpc-port", port, "--soak-seconds", "0", "--soak-requests", "0")
    url = process.stdout.readline().split()[3].rstrip(",")
    assert process.stdout.readline().split() == ["gRPC:", f"127.0.0.1:{port}"]
    assert Agent(url).deploy(conv_bundle, ignore).state == "COMMITTED"
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        given = triton.InferInput("x", [1, 3, 16, 16], "FP32")
        given.set_data_from_numpy(np.ones((1, 3, 16, 16), np.float32))
        assert client.infer("conv", [given]).as_numpy("y").shape == (1, 10)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_certificate_that_cannot_be_read_is_bad_input(start, tmp_path):
    process = start("--tls", "on", "--tls-cert", tmp_path / "none.pem", "--tls-key", tmp_path / "none.key")
    _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 3
    assert "none.pem' cannot be read" in err


@pytest.mark.cold
def test_starting_a_worker_beside_grpc_logs_nothing_about_forks(start, conv_bundle):
    port = free_port()
    quick = ("--soak-seconds", "0", "--soak-requests", "0")
    process = start("--grpc-port", port, *quick)
    url = process.stdout.readline().split()[3].rstrip(",")
    assert Agent(url).deploy(conv_bundle, ignore).state == "COMMITTED"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=WITHIN_S)
    assert "COMMITTED" in err
    assert "fork" not in err


def test_grpc_without_its_library_names_the_extra(start):
    planted = "import sys; sys.modules['grpc'] = None"
    refused = start("--grpc-port", 1, planted=planted)
    assert errors.pip_install("agent") in refused.communicate(timeout=WITHIN_S)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_by_a_signal(start, tmp_path, number):
    process = start("--json", "--data-dir", tmp_path / "data")
    live = json.loads(process.stdout.readline())
    assert (live["event"], live["phase"]) == ("progress", "live")
    process.send_signal(number)
    out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, err
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["kind"], last["data"]) == ("result", "run", {"data_dir": str(tmp_path / "data")})


def test_a_crash_is_told_with_a_trace(start, tmp_path):
    process = start("--data-dir", tmp_path / "data", "--json")
    live(process)
    process.send_signal(signal.SIGSEGV)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in said
    assert "edgeopt_agent/cli/run.py" in said


def test_with_a_trusted_key_it_says_so_and_may_listen_elsewhere(start, tmp_path):
    new_key(tmp_path / "key")
    refused = start("--host", "0.0.0.0", "--data-dir", tmp_path / "data")  # noqa: S104 - it is refused
    assert "trusts no key yet" in refused.communicate(timeout=WITHIN_S)[1]
    assert refused.returncode == 2
    trusted_keys.add(tmp_path / "data", tmp_path / "key.pub")
    process = start("--data-dir", tmp_path / "data")
    line = process.stdout.readline()
    assert "only bundles signed by a trusted key" in line
    assert Agent(line.split()[3].rstrip(",")).status().trust == "signed"


def test_the_soak_that_was_asked_for_holds(start, tmp_path, conv_bundle):
    process = start("--data-dir", tmp_path / "data", "--soak-seconds", "0", "--soak-requests", "0", "--json")
    agent = Agent(json.loads(process.stdout.readline())["message"])
    assert agent.deploy(conv_bundle, ignore).state == "COMMITTED"


@pytest.mark.parametrize("absent", MODULES)
def test_one_missing_part_of_the_extra_is_enough(start, absent):
    hidden = (
        "import importlib.util as u; find = u.find_spec; "
        f"u.find_spec = lambda name, *more: None if name == {absent!r} else find(name, *more)"
    )
    process = start("--json", planted=hidden)
    out, _ = process.communicate(timeout=WITHIN_S)
    error = json.loads(out.splitlines()[-1])
    assert process.returncode == 5
    assert "needs the 'agent' extra" in error["message"]
    assert error["hint"] == f"Install it with: {errors.pip_install('agent')}"


def test_what_is_looked_for_is_what_the_extra_brings():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    modules_of = {"prometheus-client": "prometheus_client", "edgeopt[sign]": "cryptography"}
    brought = {
        modules_of.get(name, name) for name in (r.split(">=")[0].split("[standard]")[0] for r in extras["agent"])
    }
    assert set(MODULES) <= brought


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is for Linux")
def test_systemd_hears_when_it_is_ready_alive_and_ending(start, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(WITHIN_S)
        process = start(
            *("--data-dir", tmp_path / "data"), NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000"
        )
        heard = []
        while heard.count("WATCHDOG=1") < 2 or "READY=1" not in heard:
            heard += manager.recv(4096).decode().split("\n")
        process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in heard:
            heard += manager.recv(4096).decode().split("\n")
        assert process.wait(WITHIN_S) == 0


@pytest.mark.parametrize(("manager", "waits"), [("", False), ("/no/such/socket", True)])
def test_a_start_that_fails_is_delayed_where_systemd_starts_the_agent_again(start, tmp_path, manager, waits):
    planted = "import time; time.sleep = lambda seconds: print(f'paused for {seconds} s')"
    more = {"planted": planted, "NOTIFY_SOCKET": manager}
    process = start("--data-dir", tmp_path / "data", "--tls-cert", tmp_path / "no.pem", **more)
    out, said = process.communicate(timeout=WITHIN_S)
    assert "--tls-key" in said
    assert process.returncode == 2
    assert (f"paused for {FAILED_START_PAUSE_S} s" in out) is waits


def test_tokens_are_asked_for_and_never_logged(start, tmp_path):
    token = tokens.add(tmp_path / "data", "laptop", "view").token
    process = start("--data-dir", tmp_path / "data", "--log-level", "debug")
    lines = [process.stdout.readline() for _ in range(4)]
    assert "every request needs a token" in lines[2]
    place = lines[0].split()[3].rstrip(",").removeprefix("http://")
    wrong = "wrong" * 10
    watch = partial(connect, f"ws://{place}/api/v1/telemetry")
    with watch(additional_headers={"Authorization": f"Bearer {token}"}) as viewer:
        assert viewer.recv(10)
    with pytest.raises(InvalidStatus):
        watch(additional_headers={"Authorization": f"Bearer {wrong}"})
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=WITHIN_S)
    assert "Refused a wrong access token from 127.0.0.1" in err
    assert token not in out + err
    assert wrong not in out + err


def live(process):
    """The agent whose first line this process prints."""
    return Agent(json.loads(process.stdout.readline())["message"])


def said_next(process, words):
    """Reads stderr up to the line with these words."""
    return next(line for line in process.stderr if words in line)


def test_sighup_reads_the_configuration_again_and_a_broken_one_changes_nothing(start, tmp_path, old_bundle):
    file = tmp_path / "agent.toml"
    file.write_text("soak_s = 600\n")
    process = start("--json", "--data-dir", tmp_path / "data", "--config", file)
    agent = live(process)
    file.write_text("soak_s = x\n")
    process.send_signal(signal.SIGHUP)
    assert "is not TOML" in said_next(process, "Settings unchanged")
    file.write_text("soak_s = 0\nsoak_requests = 0\nqueue_length = 5\n")
    process.send_signal(signal.SIGHUP)
    assert "read again" in said_next(process, "configuration")
    assert said_next(process, "next restart").endswith("queue_length.\n")
    assert agent.deploy(old_bundle, ignore).state == "COMMITTED"  # not in ten minutes
    process.terminate()
    assert process.wait(WITHIN_S) == 0


def test_a_wrong_configuration_keeps_the_agent_from_starting(start, tmp_path):
    file = tmp_path / "agent.toml"
    file.write_text("soak_sec = 5\n")
    process = start("--data-dir", tmp_path / "data", "--config", file)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "line 1: there is no setting 'soak_sec'" in " ".join(err.split())


def test_a_log_message_is_one_line_whatever_names_are_in_it():
    record = logging.LogRecord("agent", logging.INFO, "", 1, "refused: %s", ("\x1b[2J\nx",), None)
    assert _Lines("%(message)s").format(record) == r"refused: \x1b[2J\nx"
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        record.exc_info = sys.exc_info()
    told = _Lines("%(message)s").format(record)
    assert "\x1b" not in told
    assert told.count("\n") > 2


def test_files_of_the_agent_are_for_their_owner_whatever_the_umask(start, tmp_path, old_bundle):
    file = tmp_path / "agent.toml"
    file.write_text("soak_s = 0\nsoak_requests = 0\n")
    process = start(
        *("--json", "--data-dir", tmp_path / "data", "--config", file), planted="import os; os.umask(0)"
    )
    assert live(process).deploy(old_bundle, ignore).state == "COMMITTED"
    files = [file for file in (tmp_path / "data").rglob("*") if file.is_file() and not file.is_symlink()]
    assert len(files) > 5
    # A worker with a user of its own reads its release, in a folder that is closed to others.
    own = [file for file in files if "releases" not in file.parts]
    assert [file for file in own if file.stat().st_mode & 0o077] == []
    assert [file for file in files if file.stat().st_mode & 0o033] == []
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
    process.terminate()
    assert process.wait(WITHIN_S) == 0


def test_refused_orders_are_in_the_log_by_rate(monkeypatch, caplog):
    logger, other = (logging.getLogger(f"edgeopt_agent.mqtt.{part}") for part in ("orders", "link"))
    for each in (logger, other):
        monkeypatch.setattr(each, "filters", [])
    _limit_refusals()
    for number in range(100):
        logger.warning("A desired state was refused: %s", number)
    assert [record.getMessage() for record in caplog.records] == ["A desired state was refused: 0"]


def test_a_log_message_is_not_flooded_by_a_name():
    try:
        raise ValueError("W" * 100_000)
    except ValueError:
        found = sys.exc_info()
    record = logging.LogRecord("agent", logging.INFO, "", 1, "refused: %s", ("W" * 100_000,), found)
    assert len(_Lines("%(message)s").format(record)) < 3_000
