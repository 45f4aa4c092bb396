"""What the tests of the page share: one real search, recorded once, and a cache of the test's own."""

import fcntl
import os
import subprocess
import sys

import msgspec
import pytest

from edgeopt import events
from edgeopt.measure.messages import Memory
from edgeopt.measure.stats import Interval
from edgeopt_gui.jobs.lines import EventLines
from edgeopt_gui.pages.optimize.result import read_result
from tests.conftest import limited


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
            (folder / "recorded").mkdir(exist_ok=True)
            profile = folder / "recorded" / "brief.toml"
            profile.write_text(limited(quick_profile.read_text(), candidates=6, seconds=2))
            arguments = [
                "--data",
                conv_data,
                "-o",
                folder / "recorded" / "conv.edgeopt",
                "--profile",
                profile,
            ]
            command = [sys.executable, "-m", "edgeopt", "optimize", conv_model, *arguments, "--time-limit", 2]
            done = subprocess.run([*map(str, command), "--json"], capture_output=True, check=True)
            told.write_bytes(done.stdout)
    return tuple(EventLines().feed(told.read_bytes()))


@pytest.fixture(scope="session")
def found(recorded):
    """The data of the recorded result, as a dictionary; as if the cache, which is off in tests, had kept it."""
    assert isinstance(recorded[-1], events.Result)
    return {**recorded[-1].data, "is_cached": True}


@pytest.fixture
def result(found):
    return read_result(found)


@pytest.fixture
def won(result):
    """As if a candidate had won that another one had looked faster than."""
    source = next(each for each in result.candidates if each.candidate == result.baseline)
    change = msgspec.structs.replace
    winner = change(source.candidate, variant="cleaned")
    interval = Interval(3.04, 2.5, 3.5, 22, 0.995)
    raced = change(
        source,
        speedup=Interval(3.2, 2.2, 3.9, 9),
        latency_ms=0.189 / 3.2,
        memory=Memory(peak_bytes=61 << 20, added_bytes=21 << 20),
    )
    first = change(
        raced, candidate=winner, status="winner", reason="", speedup=interval, proved=True, of_best=None
    )
    first = change(first, latency_ms=0.189 / 3.04, memory=Memory(peak_bytes=67 << 20, added_bytes=20 << 20))
    failed = "measured again from the written bundle: no difference seen"
    other = change(raced, candidate=change(winner, variant="other"), status="lost", reason=failed, of_best=None)
    proof = change(
        result.proof,
        verdict="faster",
        speedup=interval,
        baseline_ms=0.189,
        latency_ms=0.0585,
        memory=Memory(peak_bytes=67 << 20, added_bytes=20 << 20),
        baseline_memory=Memory(peak_bytes=62 << 20, added_bytes=22 << 20),
    )
    return change(
        result,
        verdict="faster",
        winner=winner,
        proof=proof,
        candidates=(source, first, other),
        undecided=(),
        warnings=(),
        from_cache="",
        cut_short="",
    )


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, make_cache):
    """Bundles that are not saved yet lie here instead of in the user's own cache."""
    make_cache(tmp_path / "cache/edgeopt")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"
