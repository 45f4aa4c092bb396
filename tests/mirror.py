"""A program that tells how it was started, and ends as it is told to: for `tests/test_warm.py`."""

# ruff: noqa: T201, PTH109, PTH110, PTH208 - a program that prints, and tells what the system calls things

import atexit
import json
import os
import signal
import sys
import threading


def tell():
    file = int(sys.argv[2])
    os.write(file, b"through the pipe")
    own = {"0", "1", "2", str(file)}
    found = {
        "arguments": sys.argv[2:],
        "name": __name__,
        "file": sys.argv[0],
        "folder": os.getcwd(),
        "own": os.environ.get("OWN"),
        "hidden": os.environ.get("HIDDEN"),
        "path": sys.path,
        "stdin": sys.stdin.read(),
        "session": os.getsid(0),
        "group": os.getpgrp(),
        "cores": sorted(os.sched_getaffinity(0)),
        # Not the one by which they are listed.
        "files": sorted(
            int(n) for n in os.listdir("/proc/self/fd") if n in own or os.path.exists(f"/proc/self/fd/{n}")
        ),
        "above": os.getppid(),
        "main_thread": threading.current_thread() is threading.main_thread(),
    }
    print(json.dumps(found))


def main():
    what, _, detail = sys.argv[1].partition(":")
    if what == "tell":
        tell()
    elif what.startswith("wait"):
        print("waiting", flush=True)
        sys.stdin.read()
        print("nobody reads this")
    else:
        atexit.register(lambda: print(", at the end", end=""))
        print("begun", end="")
        end(what, detail)


def end(what, detail):
    if what == "exit":
        sys.exit(int(detail) if detail.isdecimal() else detail)
    if what == "raise":
        raise ValueError("a fault")
    if what == "interrupt":
        # Who starts the tests in the background may have it ignored, which a program anew takes over.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)
    if what == "abort":
        os.abort()
    if what == "hard":
        os._exit(9)


if __name__ == "__main__":
    main()
