"""Measurements where the system call filter of a service denies what confines them: they say so."""

import json
import os
import re
import subprocess
import sys
from contextlib import closing

import pytest

from edgeopt.remote.address import read_address
from edgeopt.remote.command import opened
from edgeopt_agent.main import run
from tests.agent.workers.test_confinement import needs_landlock

pytestmark = needs_landlock
# As systemd does it: SystemCallFilter= without this call, and SystemCallErrorNumber=EPERM.
FILTERED = """
import ctypes, errno, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
load_number, is_landlock = (0x20, 0, 0, 0), (0x15, 0, 1, 444)
deny, allow = (6, 0, 0, 0x50000 | errno.EPERM), (6, 0, 0, 0x7fff0000)
kept = b"".join(struct.pack("=HBBI", *each) for each in (load_number, is_landlock, deny, allow))
kept = ctypes.create_string_buffer(kept)
program = struct.pack("@HP", 4, ctypes.addressof(kept))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
from edgeopt_agent.main import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def start(tmp_path):
    """Starts a command of the agent without Landlock."""
    config = tmp_path / "agent.toml"
    config.write_text("trials = true\nport = 0\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}

    def starter(command):
        words = [command, "--config", str(config), "--data-dir", str(tmp_path / "agent")]
        return subprocess.Popen(
            [sys.executable, "-c", FILTERED, *words, *(["--json"] if command == "doctor" else [])],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    return starter


def measurements(output):
    findings = json.loads(output.splitlines()[-1])["data"]["findings"]
    return [(each["health"], each["advice"]) for each in findings if each["check"] == "measurements"]


def test_doctor_tells_whether_measurements_are_confined(start, tmp_path, capsys):
    said, _ = start("doctor").communicate(timeout=60)
    ((health, advice),) = measurements(said)
    assert health == "warning"
    assert "SystemCallFilter=" in advice
    words = ["doctor", "--config", str(tmp_path / "agent.toml"), "--data-dir", str(tmp_path / "agent"), "--json"]
    run(words)
    assert measurements(capsys.readouterr().out) == [("ok", "")]
    (tmp_path / "agent.toml").write_text("port = 0\n")
    run(words)
    assert measurements(capsys.readouterr().out) == []


def test_log_tells_of_a_measurement_that_is_not_confined(start):
    with start("run") as process:
        lines = [process.stdout.readline()]
        while not (found := re.search(r"listens at (\S+?),", lines[-1])):
            assert lines[-1], lines
            lines.append(process.stdout.readline())
        with closing(opened(read_address(found[1]))):
            while "A measurement runs with the rights of the agent" not in lines[-1]:
                assert lines[-1], lines
                lines.append(process.stdout.readline())
        process.terminate()
        assert process.wait(60) == 0
