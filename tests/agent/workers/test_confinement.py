import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Run, SourceModel, Tensor
from edgeopt_agent.workers.landlock import NETWORK_ABI, landlock_abi
from edgeopt_agent.workers.log import WorkerLog
from edgeopt_agent.workers.memory import MemoryGroup, memory_limit_bytes, new_group
from edgeopt_agent.workers.outcomes import WorkerError
from edgeopt_agent.workers.process import Worker

MIB = 1 << 20
needs_landlock = pytest.mark.skipif(
    landlock_abi() < NETWORK_ABI, reason="this kernel has no Landlock for files and TCP"
)

LIMITS = {"memory", "network", "files", "user", "capabilities", "processes", "resources"}

# What a worker's process may do, tried by itself.
CONFINED = """
import json, os, socket, sys, msgspec
from edgeopt_agent.workers.confinement import Confinement, confine

limits = confine(msgspec.json.decode(sys.argv[1], type=Confinement))
found = {"limits": {limit.name: limit.applied for limit in limits}}

def tried(name, act):
    try:
        act()
        found[name] = "allowed"
    except OSError as error:
        found[name] = error.strerror

tried("release", lambda: open(sys.argv[2]).read())
tried("write release", lambda: open(sys.argv[2], "w"))
tried("secret", lambda: open(sys.argv[3]).read())
tried("new file", lambda: open(sys.argv[3] + ".new", "w"))
tried("null", lambda: open("/dev/null", "w").write("x"))
tried("status", lambda: open("/proc/self/status").read())
tried("connect", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[4])), 5))
tried("own session", lambda: os.setpgid(0, 0) or os.setsid())
import onnxruntime, numpy
found["runtime"] = bool(onnxruntime.get_available_providers())
print(json.dumps(found))
"""


@needs_landlock
def test_a_confined_process_reads_its_release_and_reaches_nothing_else(tmp_path, serving):
    server = serving()
    release, secret = tmp_path / "release", tmp_path / "secret"
    release.mkdir()
    (release / "model").write_text("model")
    secret.write_text("token")
    asked = json.dumps({"release": str(release), "memory_bytes": 2048 * MIB})
    command = [sys.executable, "-c", CONFINED, asked, str(release / "model"), str(secret), str(server.port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["limits"] == dict.fromkeys(LIMITS, True)
    allowed = {name for name, how in found.items() if how == "allowed"}
    assert allowed == {"release", "null", "status"}
    assert found["runtime"]


# As systemd does it: SystemCallFilter= without this call, and SystemCallErrorNumber=EPERM.
FILTERED = """
import ctypes, errno, msgspec, struct
from edgeopt_agent.workers.confinement import Confinement, confine

libc = ctypes.CDLL(None, use_errno=True)
load_number, is_landlock = (0x20, 0, 0, 0), (0x15, 0, 1, 444)
deny, allow = (6, 0, 0, 0x50000 | errno.EPERM), (6, 0, 0, 0x7fff0000)
kept = b"".join(struct.pack("=HBBI", *each) for each in (load_number, is_landlock, deny, allow))
kept = ctypes.create_string_buffer(kept)
program = struct.pack("@HP", 4, ctypes.addressof(kept))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
print(msgspec.json.encode(confine(Confinement("/usr", 0))).decode())
"""


@needs_landlock
def test_landlock_that_a_system_call_filter_denies_is_not_said_to_be_missing_in_the_kernel():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", FILTERED], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    (files,) = [limit for limit in json.loads(done.stdout) if limit["name"] == "files"]
    assert files == {
        "name": "files",
        "applied": False,
        "how": "Landlock is denied by the service's system call filter",
    }


def started(bundle, settings, use=None):
    async def run():
        worker = await Worker.start(bundle, "0123456789ab", settings)
        try:
            return await use(worker) if use else None
        finally:
            await worker.stop(1.0)

    return asyncio.run(run())


@pytest.mark.parametrize(("moment", "ask"), [("load", None), ("run", lambda worker: worker.golden(60.0))])
def test_a_worker_that_takes_too_much_memory_is_ended_with_the_figure(null_bundle, settings, moment, ask):
    bounded = msgspec.structs.replace(settings, worker_memory_bytes=300 * MIB)
    with pytest.raises(WorkerError, match=r"^The worker took more than 300 MiB of memory"):
        started(null_bundle(eat_memory_at=moment), bounded, ask)


def test_a_worker_says_which_limits_it_has_and_real_models_run_within_them(conv_bundle, settings):
    async def use(worker):
        assert {limit.name for limit in worker.limits} == LIMITS
        assert (await worker.golden(30.0)).problem is None

    started(conv_bundle, settings, use)


def test_the_limit_is_four_times_what_the_bundle_says(null_bundle, settings, monkeypatch):
    bundle = null_bundle()
    monkeypatch.setattr("edgeopt_agent.workers.memory._machine_bytes", lambda: 10_000 * MIB)
    assert memory_limit_bytes(settings, bundle) == 1024 * MIB
    (bundle / "evidence.json").write_text(json.dumps({"memory": {"peak_bytes": 600 * MIB}}))
    assert memory_limit_bytes(settings, bundle) == 2400 * MIB
    (bundle / "evidence.json").write_text(json.dumps({"memory": {"peak_bytes": 6000 * MIB}}))
    assert memory_limit_bytes(settings, bundle) == 8000 * MIB
    own = msgspec.structs.replace(settings, worker_memory_bytes=300 * MIB)
    assert memory_limit_bytes(own, bundle) == 300 * MIB


@pytest.fixture
def delegated(tmp_path):
    """A recorded system whose control group is the agent's own, as `Delegate=yes` leaves it."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/edgeopt-agent.service\n")
    group = tmp_path / "sys/fs/cgroup/system.slice/edgeopt-agent.service"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("memory pids\n")
    (group / "cgroup.subtree_control").write_text("\n")
    return tmp_path, group


def mark(group):
    try:
        os.setxattr(group, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"this file system has no extended attributes: {error.strerror}")


def test_a_delegated_group_bounds_a_worker_and_tells_when_it_ran_out(delegated):
    system, group = delegated
    mark(group)
    made = new_group(64 * MIB, system)
    assert (group / "agent" / "cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+memory"
    (folder,) = group.glob("worker-*")
    assert made.take(4711)
    assert (folder / "memory.max").read_text() == str(64 * MIB)
    assert (folder / "cgroup.procs").read_text() == "4711"
    assert not made.ran_out()
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert made.ran_out()


def test_a_group_that_is_not_delegated_is_left_alone(delegated):
    system, group = delegated
    assert new_group(64 * MIB, system) is None
    assert not (group / "agent").exists()
    assert (group / "cgroup.subtree_control").read_text() == "\n"


def test_a_group_that_cannot_be_made_raises(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        MemoryGroup(Path(tmp_path / "nowhere" / "worker"), MIB)


def test_a_warning_of_the_runtime_is_not_taken_for_last_words(tmp_path):
    log = WorkerLog(tmp_path / "worker.log")
    log.data_received(
        b"the cause\n\x1b[0;93m2026-01-01 [W:onnxruntime:Default, x.cc:1 operator()] a warning\x1b[m\n"
    )
    assert log.last_line() == "the cause"
    log.connection_lost(None)


def test_a_group_that_cannot_take_a_worker_is_gone(tmp_path):
    group = MemoryGroup(tmp_path / "worker", MIB)
    (tmp_path / "worker" / "cgroup.procs").mkdir()
    assert not group.take(4711)


@pytest.fixture
def hungry_bundle(tmp_path):
    """A bundle of a real model whose run needs 600 MiB."""
    size = numpy_helper.from_array(np.array([150 * MIB], np.int64), "size")
    wide = helper.make_node("Expand", ["x", "size"], ["wide"])
    maximum = helper.make_node("ReduceMax", ["wide"], ["y"], axes=[0], keepdims=1)
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([wide, maximum], "hungry", ports[:1], ports[1:], [size])
    file = tmp_path / "hungry.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)
    deployment = Deployment(
        name="hungry",
        created="2026-01-01T00:00:00+00:00",
        edgeopt="0",
        target="quick",
        summary="a test",
        source=SourceModel("hungry.onnx", "0" * 64, 1),
        run=Run("onnxruntime-cpu", "model/hungry.onnx", {"threads": 1}),
        inputs=[Tensor("x", "float32", [1])],
        outputs=[Tensor("y", "float32", [1])],
    )
    out = tmp_path / "hungry.edgeopt"
    ones = np.ones(1, np.float32)
    with write.draft(out) as draft:
        for kind, name in (("inputs", "x"), ("outputs", "y"), ("reference", "y")):
            write.write_golden(draft, kind, [{name: ones}])
        write.fill(draft, {"hungry.onnx": file}, deployment, {"ledger.json": []})
        write.publish(draft, out)
    return out


def test_what_onnx_runtime_says_of_missing_memory_is_told_with_the_figure(hungry_bundle, settings):
    bounded = msgspec.structs.replace(settings, worker_memory_bytes=400 * MIB)
    with pytest.raises(WorkerError, match=r"^The worker took more than 400 MiB of memory\.$"):
        started(hungry_bundle, bounded, lambda worker: worker.golden(60.0))
    roomy = msgspec.structs.replace(settings, worker_memory_bytes=1600 * MIB)
    assert started(hungry_bundle, roomy, lambda worker: worker.golden(60.0)).problem is None


# What a worker keeps of the means by which the agent confirms its threads.
ASKING = """
import json, os, socket, sys
from pathlib import Path
from edgeopt_agent.workers.confinement import Confinement, confine

agent, own = socket.socketpair()
limits = confine(Confinement(sys.argv[1], 0), own)
opened = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
sent = socket.recv_fds(agent, 1, 2)[1]
print(json.dumps({
    "limits": {limit.name: [limit.applied, limit.how] for limit in limits},
    "opened": [each for each in opened if "seccomp" in each],
    "sent": len(sent),
    "closed": own.fileno() < 0,
    "user": os.getuid(),
}))
"""


def asked(release):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", ASKING, str(release)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_landlock
def test_a_worker_keeps_nothing_by_which_it_could_confirm_threads_of_others(tmp_path):
    found = asked(tmp_path)
    assert (found["opened"], found["sent"], found["closed"]) == ([], 1, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a worker a user of its own")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_files_in_a_folder_that_all_may_enter_stay_as_they_are(mode):
    """A release that its own user cannot read leaves the worker root, without capabilities, and says so."""
    with tempfile.TemporaryDirectory() as open_folder:
        Path(open_folder).chmod(0o755)
        release = Path(open_folder) / "release"
        release.mkdir()
        model = release / "model"
        model.write_text("model")
        model.chmod(0o600)
        release.chmod(mode)
        found = asked(release)
        assert (release.stat().st_mode & 0o777, model.stat().st_mode & 0o777) == (mode, 0o600)
    assert found["limits"]["capabilities"][0]
    unreadable = release if mode == 0o700 else model
    applied, how = found["limits"]["user"]
    assert (applied, found["user"]) == (False, 0)
    assert how == f"root, as the agent: a user of its own could not read {unreadable}"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core leaves nothing to choose")
def test_onnx_runtime_binds_its_threads_to_cores_in_a_worker(bundle, change_deployment, settings):
    two = sorted(os.sched_getaffinity(0))[:2]
    change_deployment(bundle, run=Run("onnxruntime-cpu", "model/conv.onnx", {"cores": ",".join(map(str, two))}))

    async def use(worker):
        assert (await worker.golden(30.0)).problem is None

    started(bundle, settings, use)
    log = (settings.data_dir / "logs/worker-0123456789ab.log").read_text()
    assert "affinity" not in log
