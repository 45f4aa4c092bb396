import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import edgeopt
from edgeopt.workers.host import (
    BLAS_THREADS,
    UNPADDED,
    VARIABLE,
    LocalHost,
    Padding,
    chance,
    child_environment,
    draw,
    outer_environment,
)

# Says how it was started, and where an array of its begins in a line of the cache.
TELLER = """
import json
from pathlib import Path

import numpy as np

from edgeopt.workers.protocol import serve


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
    monkeypatch.setattr("edgeopt.workers.host.WORKER_MODULE", "teller_trial")

    def ask(seed, count):
        host, found = LocalHost(tmp_path, seed=seed), []
        for _ in range(count):
            child = host.start()
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


SHOW = f"""
import os
from edgeopt.workers.host import outer_environment
print(os.environ.get({BLAS_THREADS!r}), outer_environment().get({BLAS_THREADS!r}),
      outer_environment().get("PYTHONPATH"), [n for n in outer_environment() if n.startswith("EDGEOPT_OUTER")])
"""


@pytest.fixture
def environment(monkeypatch):
    """This process's, as a user would have it who set neither."""
    monkeypatch.delenv(BLAS_THREADS, raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return monkeypatch


def seen_by_a_child(**how):
    command = [sys.executable, "-P", "-c", SHOW]
    done = subprocess.run(command, env=child_environment(None, **how), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_child_imports_edgeopt_and_gives_the_users_environment_back(environment):
    assert seen_by_a_child() == "None None None []"
    environment.setenv("PYTHONPATH", "/users/own")
    assert seen_by_a_child() == "None None /users/own []"


def test_who_calculates_nothing_starts_no_threads_for_it(environment):
    assert seen_by_a_child(calculates=False) == "1 None None []"


def test_what_the_user_set_holds(environment):
    environment.setenv(BLAS_THREADS, "3")
    assert seen_by_a_child(calculates=False) == "3 3 None []"


def test_a_child_of_a_child_remembers_the_first(environment, tmp_path):
    environment.setenv("PYTHONPATH", "/users/own")
    first = child_environment(tmp_path, calculates=False)
    assert first["TMPDIR"] == str(tmp_path)
    for name, value in first.items():
        environment.setenv(name, value)
    assert child_environment(None)["EDGEOPT_OUTER_PYTHONPATH"] == "/users/own"
    assert outer_environment()["PYTHONPATH"] == "/users/own"
    assert BLAS_THREADS not in outer_environment()


def test_not_from_the_working_directory(environment, tmp_path):
    environment.chdir(tmp_path)
    environment.syspath_prepend(str(tmp_path))
    assert str(tmp_path) not in child_environment(None)["PYTHONPATH"].split(os.pathsep)


def test_the_folder_of_edgeopt_comes_first(environment):
    environment.chdir(Path(edgeopt.__file__).parents[1])
    assert child_environment(None)["PYTHONPATH"].split(os.pathsep)[0] == str(Path(edgeopt.__file__).parents[1])
