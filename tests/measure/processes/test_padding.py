import json
from pathlib import Path

import pytest

from edgeopt.measure.environment import UNPADDED, VARIABLE, Padding, chance, child_environment, draw
from edgeopt.measure.host import LocalHost

# Says how it was started, and where an array of its begins in a line of the cache.
TELLER = """
import json
from pathlib import Path

import numpy as np

from edgeopt.measure.serve import serve


def answer(line):
    own = Path("/proc/self")
    array = np.zeros(800, np.float32)
    told = {
        "environment": len((own / "environ").read_bytes()),
        "arguments": len((own / "cmdline").read_bytes()),
        "place": array.ctypes.data % 64,
    }
    return json.dumps(told).encode()


serve(answer)
"""

linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="asks Linux how a process was started")


@pytest.fixture
def told(tmp_path, monkeypatch):
    """What real processes of a host with this seed say of themselves."""
    (tmp_path / "teller_trial.py").write_text(TELLER)
    monkeypatch.syspath_prepend(str(tmp_path))

    def ask(seed, count):
        host, found = LocalHost(tmp_path, seed=seed), []
        for _ in range(count):
            child = host.start("teller_trial")
            child.send(b"{}")
            found.append(json.loads(child.receive(30)))
            child.close()
        return found

    return ask


def sizes(found):
    return [(each["environment"], each["arguments"]) for each in found]


@linux
def test_each_process_has_lengths_of_its_own_and_a_seed_gives_them_again(told):
    first = told(seed=1, count=3)
    assert len(set(sizes(first))) == len({e for e, _ in sizes(first)}) == len({a for _, a in sizes(first)}) == 3
    assert sizes(told(seed=1, count=3)) == sizes(first)
    assert sizes(told(seed=2, count=1))[0] != sizes(first)[0]


@linux
def test_what_was_drawn_is_what_the_process_has(told):
    drawn = chance(7)
    first, second = (draw(drawn) for _ in range(2))
    (one, other) = told(seed=7, count=2)
    assert one["environment"] - other["environment"] == first.environment_bytes - second.environment_bytes
    assert one["arguments"] - other["arguments"] == first.argument_bytes - second.argument_bytes


@linux
def test_arrays_do_not_begin_at_one_place_of_a_cache_line_in_all_processes(told):
    """As they would: the kernel's own chance moves the heap by whole pages."""
    assert len({each["place"] for each in told(seed=3, count=8)}) > 1


def test_lengths_move_pages_lines_and_places_within_a_line():
    drawn = chance(0)
    paddings = [draw(drawn) for _ in range(1000)]
    for lengths in zip(*paddings, strict=True):
        assert min(lengths) < 64
        assert max(lengths) > 1000
        assert {length % 64 for length in lengths} == set(range(64))
    assert max(each.environment_bytes for each in paddings) > 4096


def test_only_who_is_to_be_padded_is(monkeypatch):
    monkeypatch.setenv(VARIABLE, "of the process above")
    assert VARIABLE not in child_environment(None)
    assert child_environment(None, padding=Padding(5, 0))[VARIABLE] == "....."
    assert child_environment(None, padding=UNPADDED)[VARIABLE] == ""
    assert Padding(0, 3).arguments() == ["..."]
