import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.base import Coverage
from edgeopt.errors import ModelError

NULL = backend_named("null")


def x(rows=2, start=0.0):
    return np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) + np.float32(start)


def run(path, feed, **options):
    return NULL.load(path, options).run({"x": feed})["y"]


def test_zeros_are_zeros(null_file):
    assert not run(null_file("batch", behaviour="zeros"), x()).any()


def test_mixed_numbers_depend_on_the_feeds(null_file):
    path = null_file("batch")
    assert not np.array_equal(run(path, x()), run(path, x(start=1)))


def test_a_batch_gives_what_its_rows_give_alone(null_file):
    path = null_file("batch")
    alone = np.concatenate([run(path, x()[:1]), run(path, x()[1:])])
    assert np.array_equal(run(path, x()), alone)


def test_noise_moves_the_numbers_by_a_known_amount(null_file):
    exact = run(null_file("batch"), x())
    noisy = run(null_file("batch", noise=0.01), x())
    assert 0.005 < np.abs(noisy - exact).max() < 0.0101


def test_strings_go_in_and_out(null_file):
    result = NULL.load(null_file("str"), {}).run({"x": np.array(["a", "b"])})["y"]
    assert all(isinstance(text, str) for text in result)


def quickest_s(call, times=5):
    """Of several: a busy machine makes any one of them long."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def test_a_run_takes_the_time_it_should(null_file):
    session = NULL.load(null_file("batch", latency_ms=500), {"latency_ms": 4})
    feeds = {"x": x()}
    assert 4e-3 <= quickest_s(lambda: session.run(feeds)) < 0.4


def test_loading_takes_the_time_it_should(null_file):
    start = time.perf_counter()
    NULL.load(null_file("batch", load_ms=5), {})
    assert time.perf_counter() - start >= 5e-3


def test_coverage_is_what_the_file_says(null_file):
    coverage = NULL.supports(null_file("batch", nodes=3, unsupported=["Foo: bar"]))
    assert coverage == Coverage(2, 3, ("Foo: bar",))


def test_a_planted_failure_is_a_sentence(null_file):
    with pytest.raises(ModelError, match="load, as planted"):
        NULL.load(null_file("batch", fail="load"), {})
    session = NULL.load(null_file("batch", fail="run"), {})
    with pytest.raises(ModelError, match="run, as planted"):
        session.run({"x": x()})


@pytest.mark.parametrize("key", ["behavior", "latency"])
def test_a_misspelt_key_is_an_error(null_file, key):
    with pytest.raises(ModelError, match=key):
        NULL.load(null_file("batch", **{key: 1}), {})


def test_a_type_that_is_none_is_an_error(null_file):
    with pytest.raises(ModelError, match="'bfloat16'"):
        NULL.load(null_file("bfloat16"), {})


def test_nodes_that_fell_back_are_told_and_refused_when_strict(null_file):
    path = null_file("batch", nodes=5, fallen=["Foo: a", "Foo: b", "Bar: c", "Bar: d"])
    placement = NULL.load(path, {}).placement
    assert (placement.wanted, placement.nodes) == ("null", {"null": 1, "elsewhere": 4})
    assert len(placement.fallen) == 4
    with pytest.raises(ModelError, match=r"4 of 5 nodes .* not run on null but on elsewhere") as raised:
        NULL.load(path, {}, strict=True)
    assert "Foo: a, Foo: b, Bar: c and 1 more." in raised.value.message


def test_nothing_fell_back_by_itself(null_file):
    assert NULL.load(null_file("batch"), {}, strict=True).placement is None


CHILD = """
import sys, pathlib, numpy
from edgeopt.backends.null import load
session = load(pathlib.Path(sys.argv[1]), {})
print("loaded", flush=True)
session.run({"x": numpy.zeros((1, 3), "float32")})
print("ran", flush=True)
"""


def child(path, **more):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


@pytest.mark.parametrize(("moment", "said"), [("load", ""), ("run", "loaded\n")])
def test_a_planted_crash_ends_the_process(null_file, moment, said):
    with child(null_file("batch", crash=moment)) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGSEGV
    assert out == said


def test_a_planted_hang_lasts_until_it_is_killed(null_file):
    with child(null_file("batch", hang="run")) as process:
        assert process.stdout.readline() == "loaded\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.kill()
        assert process.wait(60) == -signal.SIGKILL


def test_a_planted_flood_is_larger_than_a_pipe(null_file):
    with child(null_file("batch", flood_stderr_bytes=200_000)) as process:
        out, err = process.communicate(timeout=60)
    assert out == "loaded\nran\n"
    assert len(err) >= 200_000


def test_noise_on_stdout_comes_past_python(null_file):
    with child(null_file("batch", stdout_bytes=200_000)) as process:
        out, _ = process.communicate(timeout=60)
    assert out.endswith("loaded\nran\n")
    assert 200_000 <= len(out) < 300_000


@pytest.mark.parametrize(("moment", "said"), [("load", ""), ("run", "loaded\n")])
def test_a_planted_hunger_takes_and_touches_memory_without_end(null_file, moment, said):
    def at_most_half_a_gibibyte():
        resource.setrlimit(resource.RLIMIT_DATA, (2**29, 2**29))

    with child(null_file("batch", eat_memory_at=moment), preexec_fn=at_most_half_a_gibibyte) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == said
    assert "MemoryError" in err
