"""What the tests of the page share: one real search, recorded once, and a cache of the test's own."""

import subprocess
import sys

import pytest

from edgeopt import events
from edgeopt_gui.jobs.lines import EventLines
from edgeopt_gui.pages.optimize.result import read_result


@pytest.fixture(scope="session")
def recorded(tmp_path_factory, conv_model, conv_data, quick_profile):
    """All events of a real search by the command line, the result last."""
    out = tmp_path_factory.mktemp("recorded") / "conv.edgeopt"
    arguments = ["--data", conv_data, "-o", out, "--profile", quick_profile, "--time-limit", "5", "--json"]
    command = [sys.executable, "-m", "edgeopt", "optimize", conv_model, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, check=True)
    return tuple(EventLines().feed(done.stdout))


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
