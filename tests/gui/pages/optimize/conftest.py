"""What the tests of the page share: one real search, recorded once, and a cache of the test's own."""

import fcntl
import os
import subprocess
import sys

import pytest

from edgeopt import events
from edgeopt_gui.jobs.lines import EventLines
from edgeopt_gui.pages.optimize.result import read_result


@pytest.fixture(scope="session")
def recorded(tmp_path_factory, conv_model, conv_data, quick_profile):
    """All events of a real search by the command line, the result last; one for all workers of a test run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    told = folder / "recorded.jsonl"
    with (folder / "recorded.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            arguments = [
                "--data",
                conv_data,
                "-o",
                folder / "recorded" / "conv.edgeopt",
                "--profile",
                quick_profile,
            ]
            command = [sys.executable, "-m", "edgeopt", "optimize", conv_model, *arguments, "--time-limit", 5]
            (folder / "recorded").mkdir(exist_ok=True)
            done = subprocess.run([*map(str, command), "--json"], capture_output=True, check=True)
            told.write_bytes(done.stdout)
    return tuple(EventLines().feed(told.read_bytes()))


@pytest.fixture(scope="session")
def found(recorded):
    """The data of the recorded result, as a dictionary."""
    assert isinstance(recorded[-1], events.Result)
    return recorded[-1].data


@pytest.fixture
def result(found):
    return read_result(found)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Bundles that are not saved yet lie here instead of in the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"
