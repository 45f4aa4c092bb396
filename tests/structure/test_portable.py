"""Only `edgeopt/platform` asks which system it runs on, uses what not every system has, and renames files.

A rename on Windows must wait while another program has the file open. Exceptions are listed with their reason.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.structure.imports import ROOT, modules, parsed

ROOM = "edgeopt.platform"
EXCEPTIONS = (
    ("edgeopt.hw", "reads through `Host`, which answers None for what is missing"),
    ("edgeopt.workers.guard", "reads through `Host`"),
    ("edgeopt.measure.memory", "names files of /proc, which `field_bytes` may not find"),
    ("edgeopt.measure.instruments.counters", "counts on Linux only, and says so elsewhere"),
    ("edgeopt.backends.openvino.model", "looks at device files on Linux only"),
    ("edgeopt.backends.onnxruntime.nvidia", "names the driver's library on each system"),
    ("edgeopt.backends.onnxruntime.provider", "compares the system with those that a provider is for"),
    ("edgeopt.backends.null", "a fault that tests plant on Linux"),
    ("edgeopt.bundle.runtime.forked", "asks whether there are forks"),
    ("edgeopt.bundle.runtime.isolated", "shares memory by files that are passed on; refused in words on Windows"),
    ("edgeopt.importing.children.child", "a script without edgeopt, which asks whether there are groups"),
    ("edgeopt.remote.address", "quotes for the shell of the device"),
    ("edgeopt.remote.far", "a script that runs on the device, which Linux or macOS runs"),
    ("edgeopt_gui.display", "looks for a screen on Linux only"),
    ("edgeopt_gui.gaps", "reads a file of /proc that may be missing"),
)

MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "select", "selectors", "posix", "syslog"}
OPTIONS = {"pass_fds", "preexec_fn", "start_new_session", "process_group"}
NAMES = {
    "sys": {"platform"},
    "platform": {"system"},
    "shutil": {"move"},
    "shlex": {"join", "quote", "split"},
    "os": {
        *("name", "rename", "renames", "replace"),
        *("fork", "forkpty", "killpg", "kill", "setsid", "getsid", "setpgid", "getpgid", "getpgrp", "sched_yield"),
        *("sched_getaffinity", "sched_setaffinity", "getuid", "geteuid", "getgid", "getegid", "chown", "lchown"),
        *("fchown", "fchmod", "wait", "wait3", "wait4", "sysconf", "statvfs", "getloadavg", "uname", "mkfifo"),
        *("pread", "pwrite", "pipe2", "memfd_create", "posix_fadvise", "posix_fallocate", "nice", "setpriority"),
        *("set_blocking", "ttyname", "openpty", "register_at_fork", "sendfile", "lockf", "O_NONBLOCK", "WNOHANG"),
        *("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_ASYNC", "O_PATH"),
    },
    "socket": {"AF_UNIX", "send_fds", "recv_fds", "SCM_RIGHTS", "MSG_DONTWAIT"},
    "signal": {
        *(
            "SIGKILL",
            "SIGHUP",
            "SIGUSR1",
            "SIGUSR2",
            "SIGCHLD",
            "SIGALRM",
            "SIGPIPE",
            "SIGSTOP",
            "SIGCONT",
            "SIGQUIT",
        ),
        *("pthread_kill", "pthread_sigmask", "sigwait", "setitimer", "alarm", "pause"),
    },
    "multiprocessing": {"get_context", "set_start_method"},
}
PLACE = re.compile(r"/(proc|sys|dev|run)(/|$)")


def found_in(source: str) -> Iterator[str]:
    """Yields the line and the name of each use."""
    tree = parsed(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for name in _names(node, prose):
            yield f"{getattr(node, 'lineno', getattr(getattr(node, 'value', None), 'lineno', 0))} {name}"


def _names(node: ast.AST, prose: set[int]) -> list[str]:
    match node:
        case ast.Import(names):
            return [each.name for each in names if each.name.partition(".")[0] in MODULES]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            lacking = NAMES.get(module, set())
            return [module] if module in MODULES else [each.name for each in names if each.name in lacking]
        case ast.Attribute(ast.Name(module), name) if name in NAMES.get(module, ()):
            return [f"{module}.{name}"]
        case ast.Call(ast.Attribute(_, "rename" | "replace" as name), [_], []):
            return [f".{name}()"]  # of a path: a text's has two arguments, a record's has keywords
        case ast.Call(ast.Name("getattr"), [ast.Name(module), ast.Constant(str(name)), *_]):
            return [f"{module}.{name}"] if name in NAMES.get(module, ()) else []
        case ast.Call(func, [ast.Constant(str(name)), *_]) if "import" in ast.unparse(func):
            return [name] if name in MODULES else []
        case ast.keyword(str(name)) if name in OPTIONS:
            return [name]
        case ast.Dict(keys):
            return [key.value for key in keys if isinstance(key, ast.Constant) and key.value in OPTIONS]
        case ast.Constant(str(text)) if id(node) not in prose and PLACE.match(text):
            return [text]
    return []


def _uses(path: Path) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{each}" for each in found_in(path.read_text(encoding="utf-8"))]


def _belongs(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def test_only_the_room_of_platforms_uses_what_some_systems_lack():
    excepted = (ROOM, "edgeopt_agent", *(part for part, _ in EXCEPTIONS))
    assert [
        f"{use}: use what edgeopt/platform has for it"
        for name, path in modules()
        if not any(_belongs(name, part) for part in excepted)
        for use in _uses(path)
    ] == []


@pytest.mark.parametrize("part", [part for part, _ in EXCEPTIONS])
def test_each_exception_is_still_needed(part):
    assert [use for name, path in modules() if _belongs(name, part) for use in _uses(path)]


PLANTED = (
    *("import fcntl", "from resource import getrlimit", "def f():\n    import pwd", "import select as s"),
    *("import os\nos.fork()", "from os import killpg", "os.sched_getaffinity(0)", "flags = os.O_NOFOLLOW"),
    *("getattr(os, 'getuid')()", "os.kill(1, 9)", "signal.SIGKILL", "from signal import SIGHUP"),
    *("socket.socket(socket.AF_UNIX)", "Popen([], pass_fds=(3,))", "run([], start_new_session=True)"),
    *("Popen([], **{'preexec_fn': f})", "open('/proc/self/stat')", "Path(f'/dev/{name}')", "PLACE = '/sys'"),
    *("importlib.import_module('termios')", "__import__('grp')", "multiprocessing.get_context('fork')"),
    *("if sys.platform == 'win32': f()", "import os\nos.name", "from sys import platform", "platform.system()"),
    *("path.rename(other)", "Path(part).replace(folder / name)", "os.replace(a, b)", "shutil.move(a, b)"),
    *("shlex.join(words)", "from shlex import quote"),
)


@pytest.mark.parametrize("source", PLANTED)
def test_a_planted_use_is_found(source):
    assert len(list(found_in(source))) == 1


ALLOWED = (
    *("import os, signal, socket", "os.fsync(3)", "signal.signal(signal.SIGINT, f)", "socket.socketpair()"),
    *('"""/proc is read elsewhere."""', "hasattr(os, 'killpg')", "Path('/process')", "Popen([], env={})"),
    *("os.dup2(1, 2)", "from signal import SIGTERM", "other.fork()", "'a sentence about /proc'"),
    *("path.name", "sys.version", "text.replace('a', 'b')", "when.replace(tzinfo=UTC)", "replace_path(a, b)"),
)


@pytest.mark.parametrize("source", ALLOWED)
def test_what_every_system_has_is_not_reported(source):
    assert list(found_in(source)) == []
