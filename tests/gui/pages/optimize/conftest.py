"""What the tests of the page share: one real search, recorded once, and a cache of the test's own."""

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
def recorded(tmp_path_factory, made_once, conv_model, conv_data, quick_profile):
    """All events of a real search by the command line, the result last."""

    def search():
        folder = tmp_path_factory.mktemp("recorded")
        profile = folder / "brief.toml"
        profile.write_text(limited(quick_profile.read_text(), candidates=6, seconds=2))
        arguments = ["--data", conv_data, "-o", folder / "conv.edgeopt", "--profile", profile, "--time-limit", 2]
        command = [sys.executable, "-m", "edgeopt", "optimize", conv_model, *arguments, "--json"]
        return subprocess.run([*map(str, command)], capture_output=True, check=True).stdout

    return tuple(EventLines().feed(made_once("recorded.jsonl", search).read_bytes()))


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
    return as_won(result)


def as_won(result):
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
        latency_ms=0.189 / 3.04,
        memory=Memory(peak_bytes=67 << 20, added_bytes=20 << 20),
        baseline_memory=Memory(peak_bytes=62 << 20, added_bytes=22 << 20),
    )
    return change(
        result,
        verdict="faster",
        summary=f"3.04x faster than {result.baseline.name} (62.2 µs instead of 189 µs), the same outputs.",
        found="",
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
