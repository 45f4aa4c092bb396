"""Processes of Python that begin with everything imported: forked from one that has, not started anew.

A process of edgeopt imports for a third of a second and works for a tenth. What is forked is a process as well:
a child of whoever asked for it, with the streams, files, session, folder and environment that it was asked
with, and it ends as it would. What differs is what a start itself does: which modules there are before the first
line, the command line that the system shows, and how much memory lies shared. Tests of these are marked `cold`.
`tests/test_warm.py` holds both to the same answers.
"""

# ruff: noqa: PTH100, PTH109, PTH208, S102, T201, BLE001, SIM115 - does what Python itself does at its start and its end

import array
import asyncio
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from pathlib import Path

# What is started warm, and whether it starts such processes itself.
MODULES = {
    "edgeopt": True,
    "edgeopt.cli.attached": True,
    "edgeopt.workers": True,
    "edgeopt_agent.main": True,
    "edgeopt_agent.workers.child": False,
    "edgeopt_gui.jobs.child": True,
    "tests.agent.installed": True,
    "tests.agent.mortal": True,
}
_NESTING_TASKS = ("inspect", "make", "open-operator")
"""The tasks of workers that start such processes themselves."""
# No runtime: importing those starts threads, which a fork does not have.
_IMPORTED = (
    "numpy",
    "onnx_ir.passes.common",
    "onnxscript.rewriter",
    "rich.live",
    "rich.progress",
    "uvicorn",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.auto",
    "encodings.ascii",
    "encodings.cp437",
    "encodings.idna",
    "uvloop",
    "edgeopt.workers.isolated_backend",
    "edgeopt.workers.tasks",
    "edgeopt.measure.trial",
    "edgeopt.cli.main",
    "edgeopt.commands.analyze.tasks",
    "edgeopt.commands.bench.bench",
    "edgeopt.commands.ops.tasks",
    "edgeopt.pipeline.optimize",
    "edgeopt_agent.main",
    "edgeopt_agent.service",
    "edgeopt_agent.deployments.watched",
    "edgeopt_agent.mqtt.link",
    "edgeopt_agent.workers.child",
    "edgeopt_agent.workers.landlock",
    "edgeopt_agent.workers.seccomp",
)
# What decides, before the first line of a program, what Python and its libraries are.
_EARLY = ("PYTHON", "LD_", "LC_", "LANG", "OPENBLAS", "MALLOC")
_PLAIN = {"PYTHONPATH", "PYTHONUNBUFFERED"}
NAME = "forge"
_PR_SET_NAME = 15
_CLONE = {"x86_64": 56, "aarch64": 220, "armv7l": 120}
"""The number of the system call on each machine."""
_CLONE_PARENT = 0x8000
_MADV_COLLAPSE = 25
_HUGE_BYTES = 2 << 20
_FORK_HOOKS = ("BeforeFork", "AfterFork_Parent", "AfterFork_Child")
_LENGTH_BYTES = 8
# What Python finds without being told.
_PATH = [p for p in sys.path if p not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]

_Popen = subprocess.Popen
_create_subprocess_exec = asyncio.create_subprocess_exec


class Forge:
    """Asks the process that has imported everything for others like it."""

    def __init__(self, control):
        self._control = control
        self._lock = threading.Lock()

    def start(self, request, files):
        """The number of the new process, which is a child of this one."""
        content = json.dumps(request).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        with self._lock:
            self._control.sendmsg([len(content).to_bytes(_LENGTH_BYTES)], rights)
            self._control.sendall(content)
            return int.from_bytes(_exactly(self._control, _LENGTH_BYTES))


class _Here:
    """What this process starts warm ones with."""

    on = False
    forge = None
    process = None
    owner = 0

    @classmethod
    def forge_of_this_process(cls):
        if cls.forge is None or cls.owner != os.getpid():
            mine, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, "-P", __file__, str(theirs.fileno()), json.dumps(sys.path)]
                cls.process = _Popen(command, stdin=-3, stdout=-3, pass_fds=(theirs.fileno(),))
            cls.forge, cls.owner = Forge(mine), os.getpid()
        return cls.forge


@contextlib.contextmanager
def processes(on=True):
    """Those that can be warm are, for a while; or are not."""
    before, _Here.on = _Here.on, on
    try:
        yield
    finally:
        _Here.on = before


def install(forge=None):
    """From now on, processes can be warm; in a forked one, that has a forge of its own, they are."""
    if forge is not None:
        _Here.on, _Here.forge, _Here.owner = True, forge, os.getpid()
    subprocess.Popen = WarmPopen
    asyncio.create_subprocess_exec = _start_in_loop


class WarmPopen(_Popen):
    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *more):
        startupinfo, creationflags, shell, *rest = more
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, _restore_signals, *rest = rest
        gid, gids, uid, umask, start_new_session, process_group = rest
        odd = (executable, preexec_fn, startupinfo, creationflags, shell, gid, gids, uid)
        plain = all(each in (None, False, 0, -1) for each in odd) and umask == -1
        program = _program(args, env) if plain and close_fds and _Here.on else None
        if program is None:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *more)
            return
        files = {number: number for number in pass_fds}
        for number, theirs in ((0, p2cread), (1, c2pwrite), (2, errwrite)):
            files[number] = number if theirs == -1 else theirs
        request = program | {
            "cwd": os.fspath(cwd) if cwd else os.getcwd(),
            "environment": dict(os.environ if env is None else env),
            "files": list(files),
            "session": bool(start_new_session),
            "group": -1 if process_group is None else process_group,
            "cores": list(os.sched_getaffinity(0)),
        }
        try:
            self.pid = _Here.forge_of_this_process().start(request, list(files.values()))
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def _program(args, env):
    """What a command runs, if it can be warm."""
    if isinstance(args, str | bytes) or not args or os.fspath(args[0]) != sys.executable:
        return None
    flags, rest = [], [os.fspath(arg) for arg in args[1:]]
    while rest and rest[0] in ("-P", "-u"):
        flags.append(rest.pop(0))
    if len(rest) < 2 or rest[0] != "-m" or rest[1] not in MODULES or not _same_start(env):
        return None
    nests = MODULES[rest[1]] and (rest[1] != "edgeopt.workers" or rest[3] in _NESTING_TASKS)
    return {"module": rest[1], "arguments": rest[2:], "flags": flags, "nests": nests}


def _same_start(env):
    if env is None:
        return True
    early = {n for n in (*env, *os.environ) if n.startswith(_EARLY) and n not in _PLAIN}
    # Some start for themselves that the processes of this one keep to one thread.
    same = all(env.get(n) == os.environ.get(n) for n in early)
    own = {os.path.abspath(p) for p in sys.path}
    return same and {os.path.abspath(p) for p in env.get("PYTHONPATH", "").split(os.pathsep) if p} <= own


class _Waited:
    """What a loop knows of a process, which is less than it knows of its own."""

    def __init__(self, popen):
        self._popen = popen
        self.pid = popen.pid
        self._ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        watched = os.pidfd_open(popen.pid)

        def over():
            loop.remove_reader(watched)
            os.close(watched)
            popen.wait()
            self._ended.set()

        loop.add_reader(watched, over)

    @property
    def returncode(self):
        return self._popen.returncode

    async def wait(self):
        await self._ended.wait()
        return self._popen.returncode


async def _start_in_loop(*args, **options):
    if _Here.on and _program(args, options.get("env")) is not None:
        return _Waited(WarmPopen(args, **options))
    return await _create_subprocess_exec(*args, **options)


def _exactly(control, size):
    content = b""
    while len(content) < size:
        more = control.recv(size - len(content))
        if not more:
            raise EOFError
        content += more
    return content


def serve(control):
    """Forks what is asked for, until nobody can ask any more; the forked return with what they are to do."""
    while True:
        try:
            head, files, _, _ = socket.recv_fds(control, _LENGTH_BYTES, 250)
            head += _exactly(control, _LENGTH_BYTES - len(head))
            request = json.loads(_exactly(control, int.from_bytes(head)))
        except (EOFError, OSError):
            os._exit(0)
        mine, theirs = os.pipe()
        if not _fork_sibling():
            os.close(mine)
            # Before anybody knows its number: whoever does may end its group.
            if request["session"]:
                os.setsid()
            elif request["group"] >= 0:
                os.setpgid(0, request["group"])
            _hear_signals()
            os.write(theirs, os.getpid().to_bytes(_LENGTH_BYTES))
            os.close(theirs)
            return request, files
        os.close(theirs)
        control.sendall(os.read(mine, _LENGTH_BYTES))
        for each in (mine, *files):
            os.close(each)


def _fork_sibling():
    """Forks a child of this process's parent. Returns its number, and 0 in it.

    Two plain forks would do as well, of which the first ends at once; but copying the tables of so many pages
    is most of what a start costs.
    """
    python = ctypes.pythonapi
    before, after_parent, after_child = (getattr(python, f"PyOS_{n}") for n in _FORK_HOOKS)
    call = ctypes.PyDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    number = _CLONE[os.uname().machine]
    arguments = [ctypes.c_long(each) for each in (number, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)]
    before()
    pid = call(*arguments)
    if pid:
        after_parent()
    else:
        after_child()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return pid


def become(request, files):
    """This process is what was asked for, to its end."""
    code = 1
    try:
        _dress(request, files)
        if request["nests"]:
            _nest()
        code = _run(request)
    finally:
        os._exit(code)


def _hear_signals():
    """As a program that begins does; the forge, which it comes from, ignores them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _call_it(name):
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _dress(request, files):
    _call_it("python")
    numbers = request["files"]
    beyond = max(*numbers, *files, 64) + 1
    kept = [os.dup2(file, beyond + k) for k, file in enumerate(files)]
    os.closerange(3, beyond)
    for number, file in zip(numbers, kept, strict=True):
        os.dup2(file, number)
    os.closerange(beyond, beyond + len(kept))
    os.chdir(request["cwd"])
    os.sched_setaffinity(0, request["cores"])
    environment = request["environment"]
    os.environ.clear()
    os.environ.update(environment)
    importlib.import_module("edgeopt.privacy").keep_runtimes_quiet()  # as importing edgeopt does
    random.seed()
    tempfile.tempdir = None
    theirs = [os.path.abspath(p) for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p]
    here = [] if "-P" in request["flags"] else [request["cwd"]]
    sys.path[:] = dict.fromkeys([*here, *theirs, *_PATH])
    at_once = "-u" in request["flags"] or bool(environment.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        _open(number, name, at_once)


def _open(number, name, at_once):
    """Anew, because those from before the fork remember what the file was, such as whether it can be sought in."""
    before = getattr(sys, name)
    raw = open(number, "wb" if number else "rb", buffering=0, closefd=False)
    binary = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
    lines = number == 2 or raw.isatty()
    more = {"line_buffering": lines, "write_through": at_once and number > 0}
    stream = io.TextIOWrapper(binary, before.encoding, before.errors, **more)
    stream.mode = "w" if number else "r"
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _nest():
    """A forge of its own, while it has no thread yet."""
    mine, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        install(Forge(mine))
        return
    os.dup2(theirs.fileno(), 3)
    os.closerange(4, 1024)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _call_it(NAME)
    become(*serve(socket.socket(fileno=os.dup(3))))


def _run(request):
    """As `python -m` does, to the code that it ends with."""
    name = request["module"]
    spec = importlib.util.find_spec(name)
    if spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    main = types.ModuleType("__main__")
    main.__dict__.update(__spec__=spec, __file__=spec.origin, __package__=spec.parent, __loader__=spec.loader)
    sys.modules["__main__"] = main
    sys.argv = [spec.origin, *request["arguments"]]
    code, interrupted = 0, False
    try:
        exec(spec.loader.get_code(spec.name), main.__dict__)
    except SystemExit as told:
        code = told.code if isinstance(told.code, int) else int(told.code is not None)
        if not isinstance(told.code, int | None):
            print(told.code, file=sys.stderr)
    except BaseException as error:
        traceback.print_exception(error)
        code, interrupted = 1, isinstance(error, KeyboardInterrupt)
    threading._shutdown()
    importlib.import_module("atexit")._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 120
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code & 0xFF


def _collapse_pages():
    """Asks the kernel to hold the memory in huge pages, so that a fork copies tables of few pages, not of many.

    Linux before 6.1 refuses, and forks are slower.
    """
    rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    advise = ctypes.CDLL(None).madvise
    for place, rights, *_, name in (row if len(row) > 5 else [*row, ""] for row in rows):
        if rights == "rw-p" and name in ("", "[heap]"):
            begin, end = (int(each, 16) for each in place.split("-"))
            begin, end = -(-begin // _HUGE_BYTES) * _HUGE_BYTES, end // _HUGE_BYTES * _HUGE_BYTES
            if begin < end:
                advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_COLLAPSE)


def main():
    control = socket.socket(fileno=int(sys.argv[1]))
    # A signal to the whole group of what asks is for what it started, not for this.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.path[:] = json.loads(sys.argv[2])
    for name in _IMPORTED:
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("What is imported starts threads, which a forked process does not have.")
    gc.collect()
    gc.freeze()
    _collapse_pages()
    # Under this name, and not as what was run, whatever is forked finds what it is to use.
    warm = importlib.import_module("tests.warm")
    warm._PATH[:] = _PATH
    warm.become(*warm.serve(control))


if __name__ == "__main__":
    main()
