"""A worker whose model is native code of an attacker: it tries what docs/agent.md lists, and logs the results."""

# ruff: noqa: PTH118, PTH120, PTH123, PTH208, T201 - calls of the system, as native code makes them

import contextlib
import ctypes
import errno
import json
import os
import socket
import struct
import subprocess
import sys
import threading

from edgeopt.bundle.deployment import FILE
from edgeopt_agent.workers import child
from edgeopt_agent.workers.system_calls import ARCHITECTURES, NUMBERS

MARK = "tried: "
_libc = ctypes.CDLL(None, use_errno=True)
_COLUMN = ARCHITECTURES[os.uname().machine][1]
_GET_LIMIT, _CPU = 0, 0
_EVERY_NAMESPACE = {
    "mounts": 0x00020000,
    "control groups": 0x02000000,
    "host name": 0x04000000,
    "IPC": 0x08000000,
    "users": 0x10000000,
    "processes": 0x20000000,
    "network": 0x40000000,
}


def call(name, *arguments):
    """Makes a system call as native code does."""
    number = NUMBERS[name][_COLUMN] if isinstance(name, str) else name
    if number is None:
        raise OSError(errno.EPERM, "this machine has no such call")
    found = _libc.syscall(ctypes.c_long(number), *map(_argument, arguments))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


def _argument(value):
    return ctypes.c_long(value) if isinstance(value, int) else value


def _read(path):
    with open(path, "rb") as file:
        file.read(64)


def _read_or_missing(path):
    # A worker of a root agent does not even see the folder.
    try:
        _read(path)
    except FileNotFoundError as error:
        raise PermissionError(errno.EACCES, str(error)) from None


def _write(path):
    with open(path, "wb") as file:
        file.write(b"x")


def _datagram_pair():
    ends = (ctypes.c_int * 2)()
    call("socketpair", socket.AF_UNIX, socket.SOCK_DGRAM, 0, ends)


def _stream_pair():
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x")
        assert other.recv(1) == b"x"


def _clone(flags):
    # Without memory of its own for a stack it is a fork; the child ends at once.
    pid = call("clone", flags | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _thread():
    ended = threading.Event()
    threading.Thread(target=ended.set).start()
    assert ended.wait(60)


def _cores_of_thread():
    told, done = [], threading.Event()
    thread = threading.Thread(target=lambda: (told.append(threading.get_native_id()), done.wait(60)), daemon=True)
    thread.start()
    try:
        while not told:
            os.sched_yield()
        os.sched_setaffinity(told[0], os.sched_getaffinity(0))
    finally:
        done.set()


def _multiply():
    import numpy as np

    assert (np.ones((300, 300)) @ np.ones((300, 300)))[0, 0] == 300


def _program():
    assert subprocess.run([sys.executable, "-c", ""], check=False, cwd="/", env={}).returncode in (0, 1)


def _no_user_of_root():
    if os.geteuid() != 0:
        raise OSError(errno.EPERM, "not root")


def _become_root():
    with contextlib.suppress(OSError):
        os.setuid(0)
    _no_user_of_root()


def _no_capability():
    data = ctypes.create_string_buffer(24)
    assert _libc.capget(struct.pack("=Ii", 0x20080522, 0), data) == 0
    if not any(data.raw):
        raise OSError(errno.EPERM, "none")


def _raise_capability():
    if _libc.capset(struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", 1, 1, 0, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "capset")


def attempts(victim, victim_socket, secret, release):
    """By the line of the table in docs/agent.md: each try by its name."""
    own, agent = os.getpid(), os.getppid()
    limit, mask, parameter = struct.pack("=QQ", 1, 1), struct.pack("=Q", 1), struct.pack("=i", 0)
    attributes = struct.pack("=IIQiIQQQ", 48, 0, 0, 19, 0, 0, 0, 0)
    part = ctypes.create_string_buffer(8)
    vector = struct.pack("=QQ", ctypes.addressof(part), 8)
    out = ctypes.create_string_buffer(64)
    refused = {
        "change limits, cores or priority of another process": {
            "its CPU time": lambda: call("prlimit64", victim, _CPU, limit, None),
            "limits of the agent": lambda: call("prlimit64", agent, _CPU, None, out),
            "cores": lambda: call("sched_setaffinity", victim, 8, mask),
            "policy": lambda: call("sched_setscheduler", victim, 0, parameter),
            "parameters": lambda: call("sched_setparam", victim, parameter),
            "attributes": lambda: call("sched_setattr", victim, attributes, 0),
            "nice": lambda: call("setpriority", 0, victim, 19),
            "nice of the agent": lambda: call("setpriority", 0, agent, 0),
            "nice of a group": lambda: call("setpriority", 1, 0, 0),
            "nice of a user": lambda: call("setpriority", 2, 0x7FFFFFF0, 19),
            "I/O priority": lambda: call("ioprio_set", 1, victim, 7 | 2 << 13),
            "pages": lambda: call("move_pages", victim, 0, None, None, None, 0),
        },
        "trace, read or signal another process": {
            "ptrace": lambda: call("ptrace", 16, victim, 0, 0),
            "read": lambda: call("process_vm_readv", victim, vector, 1, vector, 1, 0),
            "write": lambda: call("process_vm_writev", victim, vector, 1, vector, 1, 0),
            "advise": lambda: call("process_madvise", 0, vector, 1, 20, 0),
            "descriptor": lambda: call("pidfd_open", victim, 0),
            "descriptor of a file": lambda: call("pidfd_getfd", 0, 0, 0),
            "signal by descriptor": lambda: call("pidfd_send_signal", 0, 0, None, 0),
            "compare": lambda: call("kcmp", victim, own, 0, 0, 0),
            "kill": lambda: call("kill", victim, 18),
            "kill the agent": lambda: call("kill", agent, 18),
            "kill a thread": lambda: call("tgkill", victim, victim, 18),
            "owner of a file": lambda: call("fcntl", 0, 8, victim),
            "signal of a file": lambda: call("fcntl", 0, 10, 9),
            "leave its group": lambda: call("setpgid", 0, 0),
            "leave its session": lambda: call("setsid"),
        },
        "see other processes in `/proc`": {
            "environment": lambda: _read(f"/proc/{victim}/environ"),
            "command": lambda: _read(f"/proc/{victim}/cmdline"),
            "status of the agent": lambda: _read(f"/proc/{agent}/status"),
            "memory of the agent": lambda: _read(f"/proc/{agent}/mem"),
            "list": lambda: os.listdir("/proc"),
        },
        "open a socket": {
            **{
                name: lambda family=family: call("socket", family, 1, 0)
                for name, family in (("UNIX", 1), ("IPv4", 2), ("IPv6", 10))
            },
            **{
                name: lambda family=family: call("socket", family, 3, 0)
                for name, family in (("netlink", 16), ("packets", 17), ("key", 15), ("algorithms", 38))
            },
            "virtual machines": lambda: call("socket", 40, 1, 0),
            "datagrams": _datagram_pair,
            "connect": lambda: _socket_to(victim_socket),
            "bind": lambda: call("bind", 0, b"\x01\x00/x", 4),
        },
        "use shared memory, semaphores or queues of the system, or keys": {
            "memory": lambda: call("shmget", 0, 4096, 0o1600),
            "semaphores": lambda: call("semget", 0, 1, 0o1600),
            "messages": lambda: call("msgget", 0, 0o1600),
            "queue": lambda: call("mq_open", b"edgeopt-test", 0o102, 0o600, None),
            "add key": lambda: call("add_key", b"user", b"edgeopt", b"x", 1, -2),
            "key": lambda: call("request_key", b"user", b"edgeopt", None, -2),
            "keyring": lambda: call("keyctl", 0, -2, 0),
        },
        "make namespaces, mounts or processes of the agent": {
            **{f"leave {n}": lambda flag=flag: call("unshare", flag) for n, flag in _EVERY_NAMESPACE.items()},
            **{f"child in {n}": lambda flag=flag: _clone(flag) for n, flag in _EVERY_NAMESPACE.items()},
            "child of the agent": lambda: _clone(0x8000),
            "enter": lambda: call("setns", 0, 0),
            "mount": lambda: call("mount", None, b"/nowhere", None, 0, None),
            "unmount": lambda: call("umount2", b"/nowhere", 0),
            "root": lambda: call("chroot", b"/nowhere"),
            "open a tree": lambda: call("open_tree", -1, b"/nowhere", 0),
            "open a file system": lambda: call("fsopen", b"nothing", 0),
        },
        "change or look into the system": {
            "host name": lambda: call("sethostname", None, -1),
            "domain": lambda: call("setdomainname", None, -1),
            "clock": lambda: call("clock_settime", 0, None),
            "swap": lambda: call("swapon", b"/nowhere", 0),
            "restart": lambda: call("reboot", 0, 0, 0, None),
            "kernel": lambda: call("kexec_load", 0, 0, None, -1),
            "module": lambda: call("init_module", None, 0, b""),
            "file by handle": lambda: call("open_by_handle_at", -1, None, 0),
            "BPF": lambda: call("bpf", 0, None, 0),
            "faults": lambda: call("userfaultfd", 0),
            "events": lambda: call("perf_event_open", None, 0, -1, -1, 0),
            "log": lambda: call("syslog", 10, None, 0),
            "personality": lambda: call("personality", 0x0040000),
            "x32": lambda: call(0x40000000 + 39),
        },
        "have capabilities or root": {
            "capability": _no_capability,
            "raise": _raise_capability,
            "root": _no_user_of_root,
            "become root": _become_root,
        },
        "open files of others, or write files": {
            "secret": lambda: _read_or_missing(secret),
            "its release": lambda: _write(os.path.join(release, FILE)),
            "a new file": lambda: _write(os.path.join(release, "new")),
            "a temporary file": lambda: _write(os.path.join(os.path.dirname(secret), "attacker")),
            "devices": lambda: _read("/dev/kmsg"),
        },
    }
    missing = {
        "": {
            "clone3": lambda: call("clone3", None, 0),
            "io_uring": lambda: call("io_uring_setup", 1, None),
            "newer": lambda: call(1000),
        }
    }
    allowed = {
        "read its release, libraries, `/etc`, `/sys`, and its own `/proc`": {
            "release": lambda: _read(os.path.join(release, FILE)),
            "status": lambda: _read("/proc/self/status"),
            "memory": lambda: _read("/proc/self/maps"),
            "thread": lambda: _read("/proc/thread-self/stat"),
            "processor": lambda: _read("/proc/cpuinfo"),
            "memory of the machine": lambda: _read("/proc/meminfo"),
            "cores": lambda: os.listdir("/sys/devices/system/cpu"),
            "zones": lambda: _read("/etc/passwd"),
            "random": lambda: _read("/dev/urandom"),
        },
        "compute, with threads and processes of its own": {
            "thread": _thread,
            "matrix": _multiply,
            "program": _program,
            "memory": lambda: os.close(os.memfd_create("x")),
        },
        "lower its own limits and priority, and choose its cores": {
            "limits": lambda: call("prlimit64", 0, _CPU, None, out),
            "limits by number": lambda: call("prlimit64", own, _CPU, None, out),
            "cores": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
            "cores of a thread": _cores_of_thread,
            "cores by number": lambda: os.sched_setaffinity(own, os.sched_getaffinity(0)),
            "policy": lambda: call("sched_setscheduler", 0, 0, parameter),
            "nice": lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)),
        },
        "use the sockets that it was started with, and socket pairs of its own": {"pair": _stream_pair},
        "signal itself": {"itself": lambda: os.kill(own, 0), "raise": lambda: call("tgkill", own, own, 0)},
    }
    return refused, missing, allowed


def _socket_to(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def tried(lines):
    found = {}
    for line, each in lines.items():
        for name, attempt in each.items():
            try:
                attempt()
            except OSError as error:
                found[f"{line}: {name}"] = errno.errorcode.get(error.errno, str(error.errno))
            except (AssertionError, ImportError) as error:
                found[f"{line}: {name}"] = repr(error)
            else:
                found[f"{line}: {name}"] = "allowed"
    return found


def main():
    load = child.load_served

    def attack_and_load(message):
        victim, *places = json.loads(os.environ["EDGEOPT_VICTIM"])
        kinds = ("refused", "missing", "allowed")
        lines = attempts(victim, *places, message.folder)
        found = {kind: tried(each) for kind, each in zip(kinds, lines, strict=True)}
        print(MARK + json.dumps(found), file=sys.stderr, flush=True)
        return load(message)

    child.load_served = attack_and_load
    child.main()


if __name__ == "__main__":
    main()
