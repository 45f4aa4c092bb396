import msgspec
import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.base import Kernel
from edgeopt.backends.onnxruntime.op_times import _add_gpu_times, _kernels
from edgeopt.backends.onnxruntime.profile import launching_nodes
from edgeopt.backends.onnxruntime.provider import CPU, CUDA
from edgeopt.errors import ModelError

pytest.importorskip("onnxruntime")
parser = pytest.importorskip("onnx.parser")

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


@pytest.fixture
def timed(tmp_path):
    """The kernels of a model that is given as its text."""

    def time(text, runs=3, **feeds):
        import onnx

        path = tmp_path / "model.onnx"
        onnx.save(parser.parse_model(HEAD + text), path)
        return backend_named("onnxruntime-cpu").op_times(path, {"threads": 1}, feeds, runs)

    return time


def test_a_fused_kernel_gives_what_the_model_calls_its_result(timed):
    """Also where the runtime keeps it in blocks of channels, under a name of its own."""
    weight = f"<float[16, 3, 3, 3] w = {{{', '.join(['0.1'] * 432)}}}>"
    found = timed(
        f"""g (float[1, 3, 32, 32] x) => (float[1, 16, 15, 15] y) {weight} {{
            [conv] c = Conv (x, w)
            [relu] r = Relu (c)
            [pool] y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
        }}""",
        x=np.ones((1, 3, 32, 32), np.float32),
    )
    by_output = {
        kernel.outputs[0]: kernel.operator for kernel in found.kernels if kernel.operator != "ReorderOutput"
    }
    assert by_output["r"] in {"Conv", "FusedConv"}
    assert by_output["y"] == "MaxPool"
    assert all(kernel.place == CPU and kernel.calls == 1 for kernel in found.kernels)
    assert sum(kernel.time_ms for kernel in found.kernels) > 0
    assert found.run_ms > 0
    assert found.plain_ms > 0
    assert found.runs == 3


def test_nodes_without_a_name_are_told_apart_by_their_order(timed):
    found = timed(
        "g (float[8] x) => (float[8] y) { a = Sin (x) b = Cos (a) c = Sin (b) y = Cos (c) }",
        x=np.ones(8, np.float32),
    )
    assert [(k.operator, k.reads, k.outputs) for k in found.kernels] == [
        ("Sin", ("x",), ("a",)),
        ("Cos", ("a",), ("b",)),
        ("Sin", ("b",), ("c",)),
        ("Cos", ("c",), ("y",)),
    ]


def test_the_body_of_a_loop_counts_once_and_as_often_as_it_runs(timed):
    found = timed(
        """g (float[64, 64] x) => (float[64, 64] y) {
            turns = Constant <value = int64 {5}> ()
            [loop] y = Loop (turns, , x) <
                body = turn (int64 i, bool on, float[64, 64] s) => (bool more, float[64, 64] t) {
                    [id] more = Identity (on)
                    [mul] t = MatMul (s, s)
                }
            >
        }""",
        x=np.zeros((64, 64), np.float32),
    )
    by_name = {kernel.name: kernel for kernel in found.kernels}
    assert by_name["mul"].calls == 5
    assert (by_name["mul"].within, by_name["loop"].within) == ("loop", "")
    assert (by_name["mul"].outputs, by_name["mul"].reads) == (("t",), ("s", "s"))


def test_a_model_of_which_nothing_is_left_to_run(timed):
    found = timed("g () => (float[2] y) <float[2] w = {1, 2}> { y = Neg (w) }")
    assert found.kernels == ()
    assert found.reason == "the model has no node left that would run"


def test_data_that_does_not_fit_is_a_sentence(timed):
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run 'model\.onnx'"):
        timed("g (float[2] x) => (float[2] y) { y = Sin (x) }", x=np.ones(3, np.float32))


def event(name, ts, dur, provider=CPU, op="Sin", **args):
    args = {"provider": provider, "op_name": op, "input_type_shape": [{"float": [4]}], **args}
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "pid": 1, "tid": 1, "args": args}


RUNS = [{"cat": "Session", "name": "model_run", "ts": ts, "dur": 900} for ts in (0, 1000, 2000, 3000)]


def test_the_first_run_is_left_out_and_one_slow_run_changes_nothing():
    nodes = [event("a", ts + 10, dur) for ts, dur in ((0, 800), (1000, 20), (2000, 500), (3000, 22))]
    (kernel,) = _kernels([*RUNS, *nodes], None)
    assert (kernel.time_ms, kernel.calls, kernel.precision) == (pytest.approx(0.022), 1, "fp32")


def test_what_a_kernel_calls_is_not_its_own_time():
    nodes = [event("loop", ts + 10, 500, op="Loop") for ts in (1000, 2000, 3000)]
    nodes += [event("mul", ts + 20 + turn * 100, 50) for ts in (1000, 2000, 3000) for turn in range(3)]
    by_name = {kernel.name: kernel for kernel in _kernels([*RUNS, *nodes], None)}
    assert by_name["loop"].time_ms == pytest.approx(0.35)
    assert (by_name["mul"].time_ms, by_name["mul"].calls) == (pytest.approx(0.15), 3)


def on_gpu(ts, dur, **args):
    return {"cat": "Kernel", "name": "gemm", "ts": ts, "dur": dur, "pid": 0, "tid": 7, "args": args}


def test_on_a_gpu_its_kernels_count_and_not_how_long_it_took_to_launch_them():
    """A recording of what CUDA's profile looks like; not run on hardware."""
    nodes = [event("mul", ts + 10, 2, CUDA, "MatMul") for ts in (1000, 2000, 3000)]
    nodes += [event("shape", ts + 20, 3, CPU, "Shape") for ts in (1000, 2000, 3000)]
    gpu = [on_gpu(ts + 11, 400, op_name="MatMul", parent_name="mul_kernel_time") for ts in (1000, 2000, 3000)]
    kernels = _kernels([*RUNS, *nodes], None)
    assert _add_gpu_times([*RUNS, *nodes, *gpu], kernels)
    assert {k.name: k.time_ms for k in kernels} == {"mul": pytest.approx(0.4), "shape": pytest.approx(0.003)}
    assert not _add_gpu_times([*RUNS, *nodes], kernels)


class CountedEvent(dict):
    """An event that counts how often it is read."""

    reads = 0

    def __getitem__(self, key):
        CountedEvent.reads += 1
        return super().__getitem__(key)


def test_each_node_is_read_a_few_times_however_many_kernels_a_gpu_runs(monkeypatch):
    monkeypatch.setattr(CountedEvent, "reads", 0)
    nodes = [CountedEvent(event(f"n{place}", place, 1, CUDA)) for place in range(300)]
    launching = launching_nodes(nodes)
    found = [launching(on_gpu(place, 9, parent_name=f"n{place}_kernel_time")) for place in range(300)]
    assert found == [f"n{place}" for place in range(300)]
    assert CountedEvent.reads <= 10 * len(nodes)


def test_kernels_can_be_sent_to_another_process(timed):
    found = timed("g (float[8] x) => (float[8] y) { y = Sin (x) }", x=np.ones(8, np.float32))
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
    assert isinstance(found.kernels[0], Kernel)
