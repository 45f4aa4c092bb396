import configparser
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "packaging" / "edgeopt-agent.service"


@pytest.fixture(scope="module")
def service():
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read(UNIT)
    return parser["Service"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("WatchdogSec", "30"),
        ("Restart", "on-failure"),
        ("KillMode", "mixed"),
        ("DynamicUser", "yes"),
        ("StateDirectory", "edgeopt"),
        ("StateDirectoryMode", "0700"),
        ("ProtectSystem", "strict"),
        ("NoNewPrivileges", "yes"),
        ("SystemCallFilter", "@system-service"),
        ("OOMPolicy", "continue"),
        ("Delegate", "memory"),
        ("RestrictNamespaces", "user net"),
    ],
)
def test_what_the_agent_relies_on_and_is_confined_by(service, key, value):
    assert service[key] == value


def test_its_memory_is_bounded_and_its_stop_has_time(service):
    assert service["MemoryMax"]
    assert int(service["TimeoutStopSec"]) > 5


def test_it_starts_a_command_that_exists(service):
    from edgeopt_agent.main import COMMANDS

    program, command, *options = service["ExecStart"].split()
    assert program.endswith("/edgeopt-agent")
    assert command in dict(COMMANDS)
    assert options == []  # settings are in /etc/edgeopt/agent.toml


def test_a_reload_needs_no_program_but_a_shell(service, tmp_path):
    program, option, script = shlex.split(service["ExecReload"])
    # Under nohup, children inherit that the signal is ignored.
    waits = "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_DFL); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", waits], stdout=-1) as agent:
        agent.stdout.readline()
        environment = {"PATH": str(tmp_path), "MAINPID": str(agent.pid)}
        subprocess.run([program, option, script], env=environment, check=True)
        assert agent.wait(10) == -signal.SIGHUP


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_it(service, tmp_path):
    # The program must exist for the check, and here it does not.
    program = tmp_path / "program"
    program.symlink_to(sys.executable)  # its own path may hold spaces, which the unit would have to quote
    text = UNIT.read_text().replace(service["ExecStart"].split()[0], str(program))
    (tmp_path / UNIT.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.replace("\n", "")) == (0, "")
