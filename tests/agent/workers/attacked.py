"""An agent's side that starts one worker of an attacker, as root, as a user or as the systemd unit has it."""

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from edgeopt_agent.settings import Settings
from edgeopt_agent.workers import launch, own_user, seccomp
from edgeopt_agent.workers.capabilities import drop_capabilities
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.system_calls import ARCHITECTURES, NUMBERS
from tests.agent.workers.attacker import MARK

# Of those that the unit's filter denies, what a worker's limits could need.
_DENIED = (
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "setns",
    "open_by_handle_at",
    "fanotify_init",
    "bpf",
    "acct",
)
_NEW_NETWORK_OR_USER = 0x40000000 | 0x10000000


def become_user(folder):
    """Changes to a user that owns the folder and reads what Python needs."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, own_user._FIRST_USER + os.getpid(), -1)
    package = Path(launch.__file__).resolve().parents[3]
    needed = (folder, package, Path(sys.prefix), Path(sys.base_prefix), *(Path(p) for p in sys.path if p))
    own_user.take_own_user(needed, ())


def become_unit():
    """Applies what the unit's settings come to in the kernel: the bits that need no systemd."""
    drop_capabilities()
    _, column = ARCHITECTURES[os.uname().machine]
    refused = seccomp._ERROR | errno.EPERM
    steps = [(seccomp._LOAD, 0, 0, 0)]
    for name in _DENIED:
        steps += [(seccomp._EQUAL, 0, 1, NUMBERS[name][column]), (seccomp._RETURN, 0, 0, refused)]
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
        become_unit()
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
        limits = asyncio.run(attacked(folder, bundle))
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
