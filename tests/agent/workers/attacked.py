"""An agent's side that starts one worker of an attacker, as root, as a user or as the systemd unit has it."""

import ctypes
import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import uvloop

from edgeopt_agent.settings import Settings
from edgeopt_agent.workers import launch, own_user, seccomp
from edgeopt_agent.workers.capabilities import drop_capabilities
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.system_calls import ARCHITECTURES, NUMBERS
from tests.agent.workers.attacker import MARK

_NEW_NETWORK_OR_USER = 0x40000000 | 0x10000000


def become_user(folder):
    """Changes to a user that owns the folder and reads what Python needs."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, own_user._FIRST_USER + os.getpid(), -1)
    package = Path(launch.__file__).resolve().parents[3]
    needed = (folder, package, Path(sys.prefix), Path(sys.base_prefix), *(Path(p) for p in sys.path if p))
    own_user.take_own_user(needed, ())


def become_unit(calls):
    """Applies what the unit's settings come to in the kernel, as far as that needs no systemd."""
    drop_capabilities()
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(seccomp._ERROR | errno.EPERM)))
    # Of another architecture: systemd ends the thread, which could not log then what it tried.
    other_architecture = 2
    assert not library.seccomp_attr_set(context, other_architecture, ctypes.c_uint32(seccomp._ERROR | errno.EPERM))
    for name in calls:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            assert not library.seccomp_rule_add_array(context, ctypes.c_uint32(seccomp._ALLOW), number, 0, None)
    assert not library.seccomp_load(context)
    _, column = ARCHITECTURES[os.uname().machine]
    refused = seccomp._ERROR | errno.EPERM
    steps = [(seccomp._LOAD, 0, 0, 0)]
    other_namespaces = 0x7E020000 & ~_NEW_NETWORK_OR_USER
    body = seccomp._refusing_bits(other_namespaces, refused)
    steps += [(seccomp._EQUAL, 0, len(body), NUMBERS["unshare"][column]), *body]
    families = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
    body = seccomp._allowing((seccomp._Only(0, families),), refused)
    steps += [(seccomp._EQUAL, 0, len(body), NUMBERS["socket"][column]), *body]
    seccomp._apply([*steps, (seccomp._RETURN, 0, 0, seccomp._ALLOW)])


def main():
    way, folder, bundle = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if way != "root" and os.geteuid() == 0:
        become_user(folder)
    if way == "unit":
        become_unit(json.loads(sys.argv[4]))
    secret, listening = folder / "secret", folder / "socket"
    secret.write_text("token")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(listening))
    server.listen()
    # A neighbour: the same user, with a secret in its environment.
    waiting = "import signal; signal.pause()"
    victim = subprocess.Popen([sys.executable, "-c", waiting], env={"TOKEN": "secret"}, stdin=subprocess.DEVNULL)
    os.environ["EDGEOPT_VICTIM"] = json.dumps([victim.pid, str(listening), str(secret)])
    launch.MODULE = "tests.agent.workers.attacker"
    try:
        limits = uvloop.run(attacked(folder, bundle))
        survived = victim.poll() is None
    finally:
        victim.kill()
        victim.wait()
        server.close()
    log = (folder / "data/logs/worker-0123456789ab.log").read_text()
    found = json.loads(next(line for line in log.splitlines() if line.startswith(MARK)).removeprefix(MARK))
    sys.__stdout__.write(json.dumps({"tried": found, "limits": limits, "survived": survived}) + "\n")


async def attacked(folder, bundle):
    settings = Settings(data_dir=folder / "data", port=0, hang_timeout_s=60.0, probe_timeout_s=120.0)
    worker = await Worker.start(bundle, "0123456789ab", settings)
    try:
        assert (await worker.golden(60.0)).problem is None
        return {limit.name: [limit.applied, limit.how] for limit in worker.limits}
    finally:
        await worker.stop(5.0)


if __name__ == "__main__":
    main()
