"""Large results belong to the caller for as long as anything can reach them, and cost no page faults."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available
from edgeopt.errors import DataError, ModelError

WIDTH = 60_000
PAIR = f"g (float[1,{WIDTH}] x) => (float[1,{WIDTH}] y, float[1,{WIDTH}] z) {{ y = Relu(x) z = Neg(x) }}"
OPEN = "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Relu(x) z = Neg(x) }"
FAILING = (
    "g (float[N,4] x, float[1,60000] big) => (float[1,60000] b, float[N,4] y, float[2,4] z)"
    " { b = Relu(big) y = Relu(x) z = MatMul(w, x) }"
)


@pytest.fixture(params=["onnxruntime-cpu", "openvino-cpu"])
def runtime(request):
    backend = backend_named(request.param)
    if not isinstance(backend.available(), Available):
        pytest.skip(backend.available().reason)
    return backend


@pytest.fixture
def pair(runtime, write_model):
    """A session with two outputs of 240 kB."""
    session = runtime.load(write_model(PAIR), {"threads": 1})
    yield session
    session.close()


def run(session, value, shape=(1, WIDTH)):
    return session.run({"x": np.full(shape, value, np.float32)})


def cycle(array):
    both = [array]
    both.append(both)
    return both


VIEWS = {
    "itself": lambda array: array,
    "slice": lambda array: array[:, 10:20],
    "added axis": lambda array: array[0][None],
    "transposed": lambda array: array.T[5:6],
    "other type": lambda array: array.view(np.int32),
    "broadcast": lambda array: np.broadcast_to(array, (3, *array.shape)),
    "read-only": lambda array: np.lib.stride_tricks.as_strided(array, writeable=False),
    "flat iterator": lambda array: array.flat,
    "memoryview": memoryview,
    "part of a memoryview": lambda array: memoryview(array).cast("B")[64:128],
    "frombuffer": lambda array: np.frombuffer(array.data, np.uint8),
    "dlpack": np.from_dlpack,
    "base": lambda array: array.base if array.base is not None else array,
    "reference cycle": cycle,
}


def content(view):
    return bytes(content(view[0])) if isinstance(view, list) else np.asarray(view).tobytes()


@pytest.mark.parametrize("kind", VIEWS)
def test_any_view_of_a_result_keeps_it(pair, kind):
    view = VIEWS[kind](run(pair, -7)["z"])
    before = content(view)
    for value in range(6):
        run(pair, value)
    assert content(view) == before


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["keep", "view", "drop", "drop all"]), st.integers(0, 9)), max_size=40))
def test_kept_results_never_change(pair, steps):
    kept = []
    for value, (step, at) in enumerate(steps, start=1):
        results = run(pair, -value)
        if step == "keep":
            kept.append((value, results["z"]))
        elif step == "view":
            kept.append((value, results["z"][0, at:][None]))
        elif step == "drop" and kept:
            del kept[at % len(kept)]
        elif step == "drop all":
            kept.clear()
        assert (results["z"] == value).all()
        assert not results["y"].any()
        del results
        assert all((array == made).all() for made, array in kept)


def test_threads_never_share_a_result(pair):
    start = threading.Barrier(8)

    def work(thread):
        rng = np.random.default_rng(thread)
        kept = []
        start.wait()
        for turn in range(60):
            value = thread * 1000 + turn + 1
            kept.append((value, run(pair, -value)["z"][0]))
            if rng.random() < 0.7:
                del kept[rng.integers(len(kept))]
            if not all((array == made).all() for made, array in kept):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_results_outlive_their_session(runtime, write_model):
    session = runtime.load(write_model(PAIR), {"threads": 1})
    first, second = run(session, -1)["z"], run(session, -2)["z"][0, 5:]
    session.close()
    del session
    assert (first == 1).all()
    first[...] = 9
    del first
    assert (second == 2).all()


@pytest.mark.parametrize("options", [{}, {"threads": 1}], ids=["threads", "one thread"])
def test_open_shapes_alternate(runtime, write_model, options):
    session = runtime.load(write_model(OPEN), options)
    kept = []
    for turn in range(24):
        rows = (20_000, 3, 40_000, 0, 20_000, 19_999)[turn % 6]
        results = run(session, -turn, (rows, 4))
        assert {name: array.shape for name, array in results.items()} == {"y": (rows, 4), "z": (rows, 4)}
        kept = [*kept[-4:], (turn, results["z"][1:])]
        assert all((array == made).all() for made, array in kept)
    session.close()


@pytest.mark.parametrize("options", [{}, {"threads": 1}], ids=["threads", "one thread"])
def test_failed_runs_change_no_kept_result(runtime, write_model, options):
    weights = np.zeros((2, 20_000), np.float32)
    session = runtime.load(write_model(FAILING, w=weights), options)

    def feeds(value, rows=20_000):
        return {"x": np.full((rows, 4), value, np.float32), "big": np.full((1, WIDTH), value, np.float32)}

    kept = []
    for value in range(1, 6):
        results = session.run(feeds(value))
        kept.append((value, results["b"][0], results["y"][None]))
        del results
        with pytest.raises(ModelError, match="could not run"):
            session.run(feeds(99, rows=20_001))
        with pytest.raises(DataError):
            session.run({"x": feeds(98)["x"]})
        assert all((b == made).all() and (y == made).all() for made, b, y in kept)
    session.close()


@pytest.mark.parametrize("shape", ["[3,50000]", "[N,50000]"], ids=["fixed", "open"])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "double", "int32", "int64", "int8"])
def test_types(runtime, write_model, name, shape):
    if name == "bfloat16" and runtime.name.startswith("onnxruntime"):
        pytest.skip("ONNX Runtime cannot pass it to Python")
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.dtype(name)
    session = runtime.load(write_model(f"g ({name}{shape} x) => ({name}{shape} y) {{ y = Identity(x) }}"), {})
    kept = []
    for value in range(5):
        feed = np.full((3, 50_000), value).astype(dtype)
        kept.append(session.run({"x": feed})["y"])
        assert kept[-1].dtype == feed.dtype
        assert not np.shares_memory(kept[-1], feed)
    assert all((array == value).all() for value, array in enumerate(kept))
    session.close()


def test_a_result_may_be_the_next_feed(pair):
    """As streams do with the state of a model."""
    state = np.full((1, WIDTH), 3, np.float32)
    for turn in range(10):
        state = pair.run({"x": state})["z"]
        assert (state == (3 if turn % 2 else -3)).all()


# Each block of this size is mapped and, when it is freed, unmapped, and no page is a huge one: so the count is the
# same on every machine.
COUNT_FAULTS = """
import ctypes, resource, sys
import numpy as np
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE
import edgeopt
session = edgeopt.load(sys.argv[1], sys.argv[2], {"threads": 1})
feed = {"x": np.ones([int(size) for size in sys.argv[3].split(",")], np.float32)}
for keeps in (False, True):
    for _ in range(5):
        results = session.run(feed)
    if not keeps:
        del results
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        if keeps:
            results = session.run(feed)
        else:
            session.run(feed)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults as Linux does")
@pytest.mark.cold
@pytest.mark.parametrize(
    ("text", "shape"),
    [(PAIR.replace(str(WIDTH), "786432"), "1,786432"), (OPEN, "196608,4")],
    ids=["fixed", "open"],
)
def test_large_results_cost_no_page_faults(runtime, write_model, text, shape):
    """Two outputs of 3 MiB: 1536 pages, whether the last result is kept until the next is there or not."""
    command = [sys.executable, "-c", COUNT_FAULTS, str(write_model(text)), runtime.name, shape]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(128 * 1024)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert max(float(line) for line in done.stdout.split()) < 100
