"""Takes away from edgeopt's own modules what Windows or macOS lacks; libraries keep what this system has.

For interpreters with this folder in PYTHONPATH and `win32` or `darwin` in EDGEOPT_LACKING. What edgeopt imports as
`os`, `sys`, `signal` and so on is a view of the real module, without some names and with others in place of them.
"""

import builtins
import errno
import fcntl
import importlib
import opcode
import os
import platform
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path

import planting
from fake_kernel32 import FakeKernel32

SYSTEM = os.environ.get("EDGEOPT_LACKING", "")
WINDOWS = SYSTEM == "win32"
LK_UNLCK, LK_NBLCK = 0, 2
UNHANDLED = 70
"""Exit code of a process with an exception that Python would only print."""
OURS = {"edgeopt", "edgeopt_agent", "edgeopt_gui"}
SCRIPTS = str(Path(__file__).resolve().parents[3] / "edgeopt")
SIGBREAK, CTRL_BREAK_EVENT = signal.SIGUSR1, 1
real = types.SimpleNamespace(
    **{
        name: getattr(os, name)
        for name in (
            "listdir",
            "lstat",
            "stat",
            "readlink",
            "access",
            "rename",
            "replace",
            "unlink",
            "remove",
            "rmdir",
            "kill",
        )
    }
)
_kept = {name: getattr(real, name) for name in vars(real)}

ON_LINUX_ONLY = {
    *("sched_getaffinity", "sched_setaffinity", "memfd_create", "pipe2", "posix_fadvise", "eventfd", "O_TMPFILE"),
    *("O_PATH", "fork", "forkpty", "splice", "pidfd_open"),
}
NOT_ON_WINDOWS = ON_LINUX_ONLY | {
    *("killpg", "setsid", "getsid", "setpgid", "getpgid", "getpgrp", "sched_yield", "getuid", "geteuid", "getgid"),
    *("getegid", "getgroups", "getresuid", "chown", "fchown", "lchown", "fchmod", "wait", "wait3", "wait4"),
    *("sysconf", "statvfs", "fstatvfs", "getloadavg", "uname", "mkfifo", "mknod", "pread", "pwrite", "preadv"),
    *("posix_spawn", "posix_fallocate", "getpriority", "setpriority", "nice", "set_blocking", "get_blocking"),
    *("ttyname", "openpty", "register_at_fork", "sendfile", "confstr", "sync", "fdatasync", "lockf", "fchdir"),
    *("O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_ASYNC", "O_SYNC", "WNOHANG", "chroot", "ctermid"),
}
SIGNALS_OF_WINDOWS = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN"}
MODULES_OF_POSIX = (
    {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "posix"} if WINDOWS else set()
)
MISSING_PLACES = re.compile("/(proc|sys|run|dev)(/(?!null$)|$)" if WINDOWS else "/(proc|sys|run|dev/shm)(/|$)")


def note(use):
    """Writes down what a module of edgeopt used without asking first, because many callers catch exceptions."""
    if place := os.environ.get("EDGEOPT_LACKING_USES"):
        # Not with `os.open` of a view, nor buffered: several processes write.
        file = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{use}\n".encode())
        os.close(file)


def _is_question(frame):
    """Whether a frame calls a function, such as `hasattr`, instead of naming an attribute itself."""
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]] in {"CALL", "PRECALL", "CALL_FUNCTION_EX", "CALL_KW"}


class View(types.ModuleType):
    def __init__(self, module, lacks=(), **own):
        super().__init__(module.__name__)
        self.__dict__.update(own, _real=module, _lacks=frozenset(lacks))

    def __getattr__(self, name):
        if name in self._lacks:
            caller = sys._getframe(1)
            if not _is_question(caller):
                note(f"{caller.f_globals.get('__name__')}: {self.__name__}.{name}")
            raise AttributeError(f"{SYSTEM} has no {self.__name__}.{name}")
        return getattr(self._real, name)

    def __setattr__(self, name, value):
        setattr(self._real, name, value)


def _is_ours(names):
    if {str(names.get(key)).partition(".")[0] for key in ("__name__", "__package__")} & OURS:
        return True
    return str(names.get("__file__")).startswith(SCRIPTS)  # started as programs of their own


def asked_by_us():
    """Whether the innermost frame outside the standard library is edgeopt's."""
    frame = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__")).partition(".")[0]
        if frame.f_code is is_open.__code__:
            return False
        if name == "tempfile" and frame.f_code.co_name == "TemporaryFile":
            return False  # it removes its open file, which on Windows the system does
        if _is_ours(frame.f_globals):
            return True
        if name not in sys.stdlib_module_names and name != __name__:
            return False
        frame = frame.f_back
    return False


def _missing(path):
    try:
        text = os.fsdecode(path)
    except TypeError:
        return False
    return MISSING_PLACES.match(text) is not None and asked_by_us()


def _audit(event, arguments):
    if event in {"open", "os.listdir", "os.scandir"} and arguments and _missing(arguments[0]):
        raise FileNotFoundError(errno.ENOENT, f"{SYSTEM} has no such file", arguments[0])


def _looks(name):
    function = getattr(real, name)

    def look(path, *arguments, **options):
        if _missing(path):
            if name == "access":
                return False
            raise FileNotFoundError(errno.ENOENT, f"{SYSTEM} has no such file", path)
        return function(path, *arguments, **options)

    return look


def is_open(path, folder=None):
    """Whether this process has a file, or one in a folder, open or mapped."""
    text = os.path.abspath(
        os.fsdecode(path)
        if folder is None
        else f"{_kept['readlink'](f'/proc/self/fd/{folder}')}/{os.fsdecode(path)}"
    )
    held = set()
    for number in _kept["listdir"]("/proc/self/fd"):
        try:
            held.add(_kept["readlink"](f"/proc/self/fd/{number}"))
        except OSError:
            continue
    with _open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        held |= {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count("/")}
    return any(each == text or (each.startswith(f"{text}/") and not os.path.isdir(each)) for each in held)


_open = open


def _moves(name):
    function = getattr(real, name)

    def move(source, target, **options):
        if asked_by_us():
            for path in (source, target):
                if is_open(path):
                    raise PermissionError(errno.EACCES, "a file is open: Windows does not move it", str(path))
            if os.path.exists(target) and (name == "rename" or os.path.isdir(target)):
                raise FileExistsError(
                    errno.EEXIST, "Windows does not rename over a folder, or a file", str(target)
                )
        return function(source, target, **options)

    return move


def _removes(name):
    function = getattr(real, name)

    def remove(path, *, dir_fd=None):
        if asked_by_us() and is_open(path, dir_fd):
            raise PermissionError(errno.EACCES, "the file is open: Windows does not remove it", str(path))
        return function(path, dir_fd=dir_fd)

    return remove


def _put(name, function):
    setattr(os, name, function)
    for names in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if getattr(real, name) in names:
            names.add(function)


ENDINGS = {-9: 1, -15: 1, -6: 0xC0000409, -11: 0xC0000005, -4: 0xC000001D, -8: 0xC0000094, -10: 0xC000013A}


def _checked(options):
    for name in ("pass_fds", "preexec_fn", "start_new_session", "process_group", "user", "group", "umask"):
        if options.get(name):
            note(f"{name}=")
            raise ValueError(f"{name} is not supported on Windows platforms")
    if options.pop("creationflags", 0) & 0x200:
        options["process_group"] = 0
    return options


class WindowsPopen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **_checked(options))

    @property
    def returncode(self):
        return self._code

    @returncode.setter
    def returncode(self, code):
        self._code = ENDINGS.get(code, code)

    def send_signal(self, number):
        kill(self.pid, number)

    def terminate(self):
        super().send_signal(signal.SIGKILL)

    kill = terminate


def run(*arguments, **options):
    done = subprocess_run(*arguments, **_checked(options))
    done.returncode = ENDINGS.get(done.returncode, done.returncode)
    return done


subprocess_run = subprocess.run


def kill(pid, number):
    """Ends a process at once, as Windows does for every signal but Ctrl-Break."""
    if number == CTRL_BREAK_EVENT:
        os.killpg(pid, SIGBREAK)
    else:
        real.kill(pid, signal.SIGKILL)


def fsync(descriptor):
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Windows syncs only files that are open for writing")
    os.fsync(descriptor)


def sockets_only(*lists):
    if any(not isinstance(each, socket.socket) for waiting in lists[:3] for each in waiting):
        raise OSError(10038, "Windows selects among sockets only")
    return select.select(*lists)


def library(name, *arguments, **options):
    import ctypes

    if name is None:
        raise TypeError("Windows has no library without a name")
    return ctypes.CDLL(name, *arguments, **options)


def locking(file, mode, _length):
    """Locks the whole file, where Windows locks a number of bytes."""
    fcntl.flock(file, {LK_NBLCK: fcntl.LOCK_EX | fcntl.LOCK_NB, LK_UNLCK: fcntl.LOCK_UN}[mode])


def _ends_where_we_fail(report):
    """Returns a hook that reports an exception and ends this process if it came from a module of edgeopt.

    Python itself only prints what fails in a thread, while it exits, and in a finalizer.
    """

    def end(failure):
        report(failure)
        trace = failure.exc_traceback
        while trace is not None and not _is_ours(trace.tb_frame.f_globals):
            trace = trace.tb_next
        if trace is not None:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(UNHANDLED)

    return end


def views():
    import ctypes

    if not WINDOWS:
        return {
            "os": View(os, ON_LINUX_ONLY),
            "sys": View(sys, platform="darwin"),
            "signal": View(signal, {"SIGPWR", "SIGSTKFLT", "sigtimedwait", "sigwaitinfo"}),
            "fcntl": View(fcntl, {"F_SETSIG", "F_GETSIG", "F_SETPIPE_SZ"}),
            "select": View(select, {"epoll"}),
            "platform": View(platform, system=lambda: "Darwin", machine=lambda: "arm64"),
        }
    lacks = {n for n in dir(signal) if n.startswith("SIG") and n not in SIGNALS_OF_WINDOWS}
    lacks |= {"pthread_kill", "pthread_sigmask", "sigwait", "sigpending", "setitimer", "alarm", "pause"}
    return {
        "os": View(os, NOT_ON_WINDOWS, name="nt", kill=kill, fsync=fsync),
        "sys": View(sys, platform="win32"),
        "signal": View(signal, lacks, SIGBREAK=SIGBREAK, CTRL_BREAK_EVENT=CTRL_BREAK_EVENT),
        "select": View(select, {"poll", "epoll", "PIPE_BUF"}, select=sockets_only),
        "socket": View(socket, {"AF_UNIX", "send_fds", "recv_fds", "SCM_RIGHTS", "MSG_DONTWAIT"}),
        "subprocess": View(subprocess, Popen=WindowsPopen, run=run, CREATE_NEW_PROCESS_GROUP=0x200),
        "platform": View(platform, system=lambda: "Windows", machine=lambda: "AMD64", release=lambda: "10"),
        "ctypes": View(
            ctypes,
            CDLL=library,
            WinDLL=lambda _: FakeKernel32(),
            windll=types.SimpleNamespace(kernel32=FakeKernel32()),
        ),
        "msvcrt": View(types.ModuleType("msvcrt"), locking=locking, LK_UNLCK=LK_UNLCK, LK_NBLCK=LK_NBLCK),
    }


def install():
    known = views()
    import_, import_module = builtins.__import__, importlib.import_module

    def find(name):
        if name.partition(".")[0] in MODULES_OF_POSIX:
            note(f"import {name}")
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return known.get(name)

    def import_for(name, names=None, inner=None, fromlist=(), level=0):
        found = find(name) if level == 0 and names and _is_ours(names) else None
        return import_(name, names, inner, fromlist, level) if found is None else found

    def import_module_for(name, package=None):
        found = find(name) if _is_ours(sys._getframe(1).f_globals) else None
        return import_module(name, package) if found is None else found

    builtins.__import__, importlib.import_module = import_for, import_module_for
    for name in ("stat", "lstat", "readlink", "access"):
        _put(name, _looks(name))
    if WINDOWS:
        for name in ("rename", "replace"):
            _put(name, _moves(name))
        for name in ("unlink", "remove", "rmdir"):
            _put(name, _removes(name))
        # Where a file is opened in the encoding of the user, which on Windows is rarely UTF-8.
        warnings.filterwarnings("error", category=EncodingWarning, module=rf"({'|'.join(OURS)})(\.|$)")
    sys.addaudithook(_audit)
    sys.unraisablehook = _ends_where_we_fail(sys.__unraisablehook__)
    threading.excepthook = _ends_where_we_fail(threading.__excepthook__)
    planting.install()


if SYSTEM:
    install()
