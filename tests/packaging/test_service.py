import ctypes
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "packaging" / "edgeopt-agent.service"
SOCKET = UNIT.with_suffix(".socket")
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def options(unit):
    """The values of each option of a unit by section, in order: an option may be given several times."""
    found, section = {}, {}
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return found


@pytest.fixture(scope="module")
def service():
    return {key: "\n".join(values) for key, values in options(UNIT)["Service"].items()}


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
        ("OOMPolicy", "continue"),
        ("Delegate", "memory"),
        ("RestrictNamespaces", "user net"),
        ("FileDescriptorStoreMax", "4"),
        ("PrivateMounts", "yes"),
        ("ProtectHostname", "yes"),
        ("ProtectKernelLogs", "yes"),
        ("ProtectProc", "invisible"),
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


def test_the_agent_reads_the_memory_of_the_machine_and_sets_up_groups_for_workers(service):
    assert "ProcSubset" not in service  # /proc/meminfo
    assert "ProtectControlGroups" not in service


def test_it_may_open_as_many_files_as_the_agent_wants(service):
    from edgeopt_agent.cli.run import DESCRIPTORS

    assert int(service["LimitNOFILE"]) >= DESCRIPTORS


def test_the_socket_unit_listens_where_the_settings_do_by_default():
    from edgeopt_agent.settings import Settings

    default = Settings(data_dir=Path())
    assert options(SOCKET)["Socket"]["ListenStream"] == [f"{default.host}:{default.port}"]


def analyze(*arguments):
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@needs_systemd
def test_systemd_understands_the_socket_unit(service, tmp_path):
    # Its service must be there too, and that one's program.
    text = UNIT.read_text().replace(service["ExecStart"].split()[0], "/bin/true")
    (tmp_path / UNIT.name).write_text(text)
    shutil.copy(SOCKET, tmp_path)
    done = analyze("verify", "--man=no", tmp_path / SOCKET.name)
    assert (done.returncode, done.stderr.replace("\n", "")) == (0, "")


def allowed_calls(filters):
    """The system calls that lines of SystemCallFilter= allow, by the sets of this systemd."""
    sets, current = {}, []
    for line in analyze("syscall-filter").stdout.splitlines():
        if line.startswith("@"):
            current = sets.setdefault(line.strip(), [])
        elif line.startswith("    ") and not line.strip().startswith("#"):
            current.append(line.strip())

    def calls(name):
        return {call for each in sets[name] for call in calls(each)} if name.startswith("@") else {name}

    found = set()
    for line in filters:
        named = {call for name in line.lstrip("~").split() for call in calls(name)}
        found = found - named if line.startswith("~") else found | named
    return found


# Denies all other calls as the service does, and then serves a bundle by a worker.
FILTERED_WORKER = """
import asyncio, ctypes, json, sys
from pathlib import Path
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.process import Worker

library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(0x00050000 | 1)))
for name in json.loads(sys.argv[1]):
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:
        assert library.seccomp_rule_add_array(context, ctypes.c_uint32(0x7fff0000), number, 0, None) == 0, name
assert library.seccomp_load(context) == 0

async def main():
    worker = await Worker.start(Path(sys.argv[2]), "0123456789ab", Settings(data_dir=Path(sys.argv[3])))
    golden = await worker.golden(60.0)
    print(json.dumps([golden.problem, {limit.name: [limit.applied, limit.how] for limit in worker.limits}]))
    await worker.stop(5.0)

asyncio.run(main())
"""


def has_seccomp():
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    return True


@needs_systemd
@pytest.mark.skipif(not has_seccomp(), reason="libseccomp is not installed")
def test_a_worker_runs_and_is_confined_within_the_system_call_filter(service, conv_bundle, tmp_path):
    from edgeopt_agent.workers.landlock import landlock_abi

    calls = allowed_calls(service["SystemCallFilter"].split("\n"))
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "unshare"} <= calls
    assert {"capset", "seccomp"} <= calls
    assert not {"chown", "setuid", "chroot", "mount", "ptrace"} & calls
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", FILTERED_WORKER, json.dumps(sorted(calls)), str(conv_bundle), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    problem, limits = json.loads(done.stdout)
    assert problem is None
    assert limits["files"][0] == (landlock_abi() > 0), limits
    assert "filter" not in limits["files"][1]
    assert limits["capabilities"][0], limits
    assert limits["processes"][0], limits


@needs_systemd
def test_systemd_understands_it(service, tmp_path):
    # The program must exist for the check, and here it does not.
    program = tmp_path / "program"
    program.symlink_to(sys.executable)  # its own path may hold spaces, which the unit would have to quote
    text = UNIT.read_text().replace(service["ExecStart"].split()[0], str(program))
    (tmp_path / UNIT.name).write_text(text)
    done = analyze("verify", "--man=no", tmp_path / UNIT.name)
    assert (done.returncode, done.stderr.replace("\n", "")) == (0, "")
