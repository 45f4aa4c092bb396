"""Systems that lack what confines a worker: who uses the agent learns of it, and what is left holds."""

import json
import os
import subprocess
import sys

import pytest

from edgeopt_agent.workers.seccomp import filters_exist

pytestmark = pytest.mark.skipif(not filters_exist(), reason="no filter can imitate an older kernel here")

# Denies Landlock, and seccomp where asked to, as kernels without them do; then runs another program.
OLDER = """
import ctypes, errno, os, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
prctl = {"x86_64": 157}.get(os.uname().machine, 167)
load_number, load_first, allow = (0x20, 0, 0, 0), (0x20, 0, 0, 16), (6, 0, 0, 0x7fff0000)
missing, invalid = (6, 0, 0, 0x50000 | errno.ENOSYS), (6, 0, 0, 0x50000 | errno.EINVAL)
steps = [load_number, (0x15, 0, 1, 444), missing]
if sys.argv[1] == "neither":
    steps += [(0x15, 0, 3, prctl), load_first, (0x15, 0, 1, 22), invalid]
steps.append(allow)
kept = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in steps))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("@HP", len(steps), ctypes.addressof(kept)), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""

# What a worker may do to another process and by sockets where seccomp alone confines it.
CONFINED = """
import ctypes, json, os, signal, socket, sys
from edgeopt_agent.workers.confinement import Confinement, confine

victim = os.getppid()
limits = {limit.name: limit.applied for limit in confine(Confinement(sys.argv[1], 0))}
found = {}

def tried(name, act):
    try:
        act()
        found[name] = "allowed"
    except OSError as error:
        found[name] = error.strerror

tried("other", lambda: os.kill(victim, 0))
tried("other's group", lambda: os.killpg(os.getpgid(victim), 0))
tried("every process", lambda: os.kill(-1, 0))
tried("socket", lambda: socket.socket(socket.AF_UNIX))
tried("itself", lambda: os.kill(os.getpid(), 0))
tried("its thread", lambda: signal.pthread_kill(__import__("threading").get_ident(), 0))
tried("its group", lambda: os.kill(0, 0))
print(json.dumps([limits, found]))
"""


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def older(lacking, *arguments):
    return [sys.executable, "-c", OLDER, lacking, *map(str, arguments)]


def run(lacking, *arguments):
    command = older(lacking, *arguments)
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)


def test_without_landlock_seccomp_also_denies_signals(tmp_path):
    release = tmp_path / "release"
    release.mkdir()
    done = run("landlock", "-c", CONFINED, release)
    assert done.returncode == 0, done.stderr
    limits, found = json.loads(done.stdout)
    assert (limits["files"], limits["processes"]) == (False, True)
    allowed = {name for name, how in found.items() if how == "allowed"}
    assert allowed == {"itself", "its thread", "its group"}


def first_warning(lacking, tmp_path):
    command = older(lacking, "-m", "edgeopt_agent", "run", "--port", "0", "--data-dir", tmp_path / "data")
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as agent:
        lines = []
        for line in agent.stderr:
            lines.append(line)
            if " started: " in line:
                agent.terminate()  # the warning, if it comes, is logged before the signal is handled
        return [line for line in lines if "not confined" in line]


def test_the_agent_warns_at_its_start_where_nothing_confines_its_workers(tmp_path):
    (line,) = first_warning("neither", tmp_path)
    assert "Workers are not confined: this kernel has neither seccomp nor Landlock." in line


def test_one_of_the_two_is_no_reason_to_warn(tmp_path):
    assert first_warning("landlock", tmp_path) == []


def test_doctor_says_which_limits_do_not_hold(tmp_path):
    done = run(
        "neither", "-m", "edgeopt_agent", "doctor", "--json", "--port", "0", "--data-dir", tmp_path / "data"
    )
    found = {each["check"]: each for each in json.loads(done.stdout)["data"]["findings"]}
    assert found["worker files"]["message"] == "Not limited: the kernel has no Landlock."
    assert found["worker processes"]["message"].startswith("Not limited: ")
    assert found["worker capabilities"]["message"] == "none, and none can be gained."
