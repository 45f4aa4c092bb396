"""Null models with samples, and trials that are closed at the end."""

import os
import subprocess
import sys
from contextlib import ExitStack

import msgspec
import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import check_samples, save_samples
from edgeopt.measure.contender import enter
from edgeopt.measure.messages import Load
from edgeopt.workers import host

INPUTS = (TensorInfo("x", "float32", ("batch", 3)),)
OUTPUTS = (TensorInfo("y", "float32", ("batch", 2)),)


@pytest.fixture
def samples(tmp_path):
    """A folder with six samples."""
    folder = tmp_path / "samples"
    save_samples(check_samples({"x": np.arange(18, dtype=np.float32).reshape(6, 3)}, INPUTS), folder)
    return folder


@pytest.fixture
def load_null(tmp_path, samples):
    """The request to load a null model that behaves as told."""

    def request(name="model", **behaviour):
        path = tmp_path / f"{name}.null.json"
        model = {"inputs": INPUTS, "outputs": OUTPUTS, "behaviour": "mix", **behaviour}
        # Processes that were started for the last one may be reading it just now.
        whole = path.with_suffix(".new")
        whole.write_bytes(msgspec.json.encode(model))
        whole.replace(path)
        return Load("null", str(path), {}, str(samples))

    return request


@pytest.fixture
def start():
    """Starts a trial, or another module that serves."""
    with ExitStack() as stack:

        def starter(module=host.WORKER_MODULE):
            with pytest.MonkeyPatch.context() as planted:
                planted.setattr(host, "WORKER_MODULE", module)
                child = host.LocalHost().start()
            stack.callback(child.close)
            return child

        yield starter


@pytest.fixture
def contender(load_null):
    """A null model that takes part in a contest."""
    with ExitStack() as stack:

        def entered(name, **behaviour):
            one = enter(host.LocalHost(), name, load_null(name, **behaviour))
            stack.callback(one.close)
            return one

        yield entered


@pytest.fixture
def middle_process():
    """Runs a Python program between the test and its trials; gives what it printed first, and itself."""
    with ExitStack() as stack:

        def run(program, *arguments):
            process = subprocess.Popen(
                [sys.executable, "-c", program, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process.stdout.readline(), process

        yield run
