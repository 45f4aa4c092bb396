"""Binding on the processor, which keeps to the same rules as a device's memory."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.onnxruntime.bound import BoundMemory, BoundRun

ort = pytest.importorskip("onnxruntime")
ORT = backend_named("onnxruntime-cpu")


def ones(*shape, value=1):
    return np.full(shape, value, np.float32)


@pytest.fixture(params=[False, True], ids=["plain", "graph"])
def bound(request, onnx_file):
    """`bound("batch")` runs that model; with a graph the outputs have fixed places, as CUDA wants them."""

    def make(kind="", **parts):
        session = ort.InferenceSession(str(onnx_file(kind, **parts)), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        run = BoundRun(session, BoundMemory("cpu"), request.param)
        return lambda feeds: run(names, feeds, None)

    return make


def test_results_belong_to_the_caller(bound):
    run = bound("batch")
    first = run({"x": ones(2, 3)})[0]
    second = run({"x": ones(2, 3, value=5)})[0]
    assert (first.tolist(), second.tolist()) == ([[2] * 3] * 2, [[10] * 3] * 2)
    first[...] = 9
    assert run({"x": ones(2, 3)})[0].tolist() == [[2] * 3] * 2


def test_each_shape_has_a_place_and_only_the_latest_are_kept(bound):
    run = bound("batch")
    for size in (*range(1, 14), 1, 0, 13, 1):
        assert run({"x": ones(size, 3, value=size)})[0].tolist() == [[2 * size] * 3] * size


def test_shapes_go_with_the_names_of_the_inputs(bound):
    ports = [("a", "float32", ["n", "m"]), ("b", "float32", ["m", "n"])]
    out = [("y", "float32", ["n", "n"])]
    run = bound(nodes=[("MatMul", ["a", "b"], ["y"], {})], inputs=ports, outputs=out)
    wide, tall = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(run({"a": wide, "b": tall})[0], wide @ tall)
    # The same shapes in the same order, for the other inputs.
    assert np.array_equal(run({"b": wide, "a": tall})[0], tall @ wide)


def test_feeds_may_lie_in_memory_as_they_like(bound):
    run = bound("batch")
    feed = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]
    assert np.array_equal(run({"x": feed})[0], feed * 2)
    assert np.array_equal(run({"x": np.asfortranarray(feed)})[0], feed * 2)


def test_threads_wait_for_each_other(bound):
    run = bound("batch")

    def work(value):
        return all(run({"x": ones(50, 3, value=value)})[0].max() == 2 * value for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_it_is_an_option(onnx_file):
    session = ORT.load(onnx_file("two"), {"io_binding": True})
    result = session.run({"a": np.array([[1, 2]]), "b": ones(1, 2)})
    assert {name: array.tolist() for name, array in result.items()} == {"z": [[2, 3]], "m": [[0, -1]]}


def test_strings_are_passed_as_ever(onnx_file):
    session = ORT.load(onnx_file("str"), {"io_binding": True})
    assert session.run({"x": np.array(["ab"])})["y"].tolist() == ["ab"]


class Recorded:
    """An ONNX Runtime session that notes which graph each run asks for."""

    def __init__(self, path):
        self.real = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.graphs, self.released = [], []

    def io_binding(self):
        return self.real.io_binding()

    def run_with_iobinding(self, binding, options):
        self.graphs.append(options.get_run_config_entry("gpu_graph_id"))
        self.real.run_with_iobinding(binding, options)

    def release_captured_graph(self, number):
        self.released.append(number)


def test_a_graph_is_recorded_for_each_shape_and_let_go_with_its_place(onnx_file):
    session = Recorded(onnx_file("batch"))
    run = BoundRun(session, BoundMemory("cpu"), graph=True)
    for size in (1, 1, 2, 1):
        run(["y"], {"x": ones(size, 3)}, None)
    # -1 runs without one, which is how the shapes of the outputs become known.
    assert session.graphs == ["-1", "1", "1", "-1", "2", "1"]
    for size in range(3, 11):
        run(["y"], {"x": ones(size, 3)}, None)
    assert session.released == [2, 1]


class Gpu:
    """Stands for a session and its binding on a GPU: it notes where things are put, and doubles the input."""

    def __init__(self):
        self.places, self.content, self.outputs = [], {}, []

    def ortvalue_from_shape_and_type(self, shape, dtype, device, number):
        self.places.append((tuple(shape), dtype, device, number))
        return SimpleNamespace(update_inplace=lambda array: self.content.update(x=array.copy()))

    def io_binding(self):
        return SimpleNamespace(
            bind_ortvalue_input=lambda name, _value: self.places.append(name),
            bind_output=lambda *where: self.outputs.append(where),
            copy_outputs_to_cpu=lambda: [self.content["x"] * 2],
        )

    def run_with_iobinding(self, _binding, options):
        assert options is None


def test_inputs_are_put_on_the_gpu_once_for_each_shape(monkeypatch):
    gpu = Gpu()
    monkeypatch.setattr(ort, "OrtValue", gpu)
    run = BoundRun(gpu, BoundMemory("cuda", 1), graph=False)
    for value in (1, 2, 3):
        assert run(["y"], {"x": ones(2, 3, value=value)}, None)[0].tolist() == [[2 * value] * 3] * 2
    assert gpu.places == [((2, 3), np.float32, "cuda", 1), "x"]
    assert set(gpu.outputs) == {("y", "cuda", 1)}
    run(["y"], {"x": ones(4, 3)}, None)
    assert [place[0] for place in gpu.places if isinstance(place, tuple)] == [(2, 3), (4, 3)]
