"""The command line as its users run it: in a process of its own, or where that does not matter, in this one."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from edgeopt.cli.main import run

NULL_MODEL = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 2]}],
    "behaviour": "mix",
}


class Started:
    """A running `edgeopt`; `temporary` is where it may put what nobody is to find later."""

    def __init__(self, process: subprocess.Popen, temporary: Path, rest_of):
        self.process, self.temporary, self._rest_of = process, temporary, rest_of

    def first_line_with(self, text):
        """Waits for it on stdout; what came before is dropped."""
        return next(line for line in self.process.stdout if text in line)

    def finish(self, within_s=60):
        """Its exit code, and the rest of what it said."""
        out, err = self._rest_of(self.process, within_s)
        return self.process.returncode, out, err


@pytest.fixture
def start(tmp_path, rest_of):
    """Starts `python -m edgeopt ARGUMENTS`, or another module; a planted line of Python runs before it."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with ExitStack() as stack:

        def starter(*arguments, planted="", stdout=subprocess.PIPE, module="edgeopt", **variables):
            paths = [p for p in sys.path if p]
            if planted:
                folder = tmp_path / "planted"
                folder.mkdir(exist_ok=True)
                (folder / "sitecustomize.py").write_text(planted)
                paths.insert(0, str(folder))
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(paths),
                    "TMPDIR": str(temporary),
                    "COLUMNS": "200",
                    **variables,
                },
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return Started(process, temporary, rest_of)

        yield starter


@pytest.fixture
def edgeopt(start):
    """Runs it to its end: exit code, standard output, standard error."""

    def started(*arguments, **more):
        return start(*arguments, **more).finish()

    return started


@pytest.fixture
def edgeopt_here(tmp_path, monkeypatch, capfd):
    """The same in this process, half a second sooner: for tests of what a command does, not of how it ends."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def here(*arguments):
        capfd.readouterr()
        return run([str(argument) for argument in arguments]), *capfd.readouterr()

    return here


@pytest.fixture
def null_model(tmp_path):
    """A model that needs no runtime and behaves as told."""

    def write(name="model", **behaviour):
        path = tmp_path / f"{name}.null.json"
        path.write_text(json.dumps(NULL_MODEL | behaviour))
        return path

    return write


@pytest.fixture
def null_data(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x=np.ones((4, 3), np.float32))
    return path
