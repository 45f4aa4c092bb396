"""Pythons as if on Windows or macOS, and sessions that run commands in one of them."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

from edgeopt.workspace import sweep

HERE = Path(__file__).parent
SYSTEMS = ("win32", "darwin")
ODD_NAME = "Ærø → test"
"""Name of a folder with spaces and with a character that cp1252 lacks."""
CODE_PAGES = {"win32": "cp1252", "darwin": "utf-8"}
USES = "uses.txt"
QUICK = """
name = "portable"
title = "What a tiny model needs"
extends = "generic-cpu"
[precision]
ladder = ["source", "cleaned"]
[backends]
order = ["onnxruntime-cpu"]
[search]
max_candidates = 4
time_limit_s = 5
"""
# Windows writes redirected output in the code page of the user, and reads files in it unless told otherwise.
CODE_PAGE = {"PYTHONIOENCODING": CODE_PAGES["win32"], "PYTHONUTF8": "0", "PYTHONWARNDEFAULTENCODING": "1"}


def environment(system, folder, **more):
    """Returns the variables of a Python as if on another system, whose user has this folder as home."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {
        **inherited,
        **(CODE_PAGE if system == "win32" else {}),
        "PYTHONPATH": str(HERE / "lacking"),
        "EDGEOPT_LACKING": system,
        "EDGEOPT_LACKING_USES": str(folder / USES),
        "EDGEOPT_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder),
        "HOME": str(folder),
        **more,
    }


def uses(folder):
    """Returns what edgeopt's processes used in spite of its absence; their commands may have survived that."""
    place = folder / USES
    return place.read_text().splitlines() if place.exists() else []


def start_python(system, folder, *arguments, variables=None, encoding="", **options):
    """Starts Python as if on another system, as the leader of a group."""
    return subprocess.Popen(
        [sys.executable, "-P", *arguments],
        env=environment(system, folder, **(variables or {})),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding=CODE_PAGES[system] if encoding == "" else encoding,
        process_group=0,
        **options,
    )


class Session:
    """Runs commands in one process of a system; `names` are replaced in their arguments."""

    def __init__(self, system, folder, names, variables=None):
        self.system, self.folder, self.names = system, folder, names
        script = str(HERE / "session.py")
        self._process = start_python(system, folder, script, stdin=subprocess.PIPE, variables=variables)
        self.pid = self._process.pid

    def __call__(self, *arguments):
        self._process.stdin.write(json.dumps([self.names.get(each, each) for each in arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        try:
            return json.loads(line)
        except ValueError:
            raise AssertionError(f"the session ended: {line}{self._process.communicate()[0]}") from None

    def ended_children(self):
        """Whether no process that the session has started still runs."""
        return psutil.Process(self.pid).children(recursive=True) == []

    def close(self):
        self._process.stdin.close()
        code = self._process.wait(60)
        self._process.stdout.close()
        return code


@contextlib.contextmanager
def opened(system, folder, model, data, bundle, variables=None):
    """Opens a session with a model, data, a bundle and a quick profile in a folder with an unusual name."""
    folder /= ODD_NAME
    folder.mkdir()
    (folder / "p.toml").write_text(QUICK)
    names = {
        "MODEL": str(shutil.copy(model, folder / "my model.onnx")),
        "DATA": str(shutil.copy(data, folder / "my data.npz")),
        "BUNDLE": str(shutil.copytree(bundle, folder / "my bundle.edgeopt")),
    }
    session = Session(system, folder, names, variables)
    try:
        yield session
    finally:
        code = session.close()
    assert (code, uses(folder)) == (0, [])


def left_in(folder, system):
    """Returns the temporary folders that stay: open files do on Windows, until the sweep of a next command."""
    if system == "win32":
        sweep(folder)
    return [each.name for each in folder.iterdir() if each.name.startswith("edgeopt-")]


def workers(process):
    """Waits until a search has started worker processes, and returns these."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = [each for each in psutil.Process(process.pid).children(recursive=True) if _is_worker(each)]
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("the search started no worker")


def _is_worker(process):
    try:
        return "edgeopt.workers" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False
