import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.onnxruntime import nvidia, profile
from edgeopt.backends.onnxruntime.cpu import PROVIDER
from edgeopt.backends.onnxruntime.profile import _by_provider, provider_times, real_shapes
from edgeopt.errors import ModelError

pytest.importorskip("onnxruntime")


def test_the_processor_takes_all_of_the_time(onnx_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = onnx_file("large")
    before = set(tmp_path.iterdir())
    found = backend_named("onnxruntime-cpu").times(path, {"threads": 1}, {"x": np.ones((1, 200_000), np.float32)})
    assert set(found) == {"CPUExecutionProvider"}
    assert 0.001 < found["CPUExecutionProvider"] < 1000
    assert set(tmp_path.iterdir()) == before


CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def kernel(ts, dur, provider, name="n_kernel_time", tid=1, op=""):
    args = {"provider": provider, "op_name": op}
    return {"cat": "Node", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}


def on_gpu(ts, dur, **args):
    return {"cat": "Kernel", "name": "gemm", "ts": ts, "dur": dur, "pid": 0, "tid": 7, "args": args}


def test_the_first_run_is_left_out_and_the_others_are_averaged():
    runs = [{"cat": "Session", "name": "model_run", "ts": ts, "dur": 9} for ts in (0, 1000, 2000)]
    events = [
        *(kernel(10, 900, "G"), kernel(1010, 100, "G"), kernel(1200, 40, "C"), kernel(2010, 300, "G")),
        *(kernel(2020, 7, "G", "n_fence_before"), {"cat": "Node", "name": "x_kernel_time", "ts": 2030, "dur": 5}),
    ]
    assert _by_provider([*runs, *events]) == {"G": pytest.approx(0.2), "C": pytest.approx(0.02)}


def test_the_body_of_a_loop_is_not_counted_again(monkeypatch, tmp_path):
    """The runtime times the Loop, and each node of its body on the same thread."""
    events = [
        *(kernel(20, 10, CPU, "a_kernel_time"), kernel(30, 10, CPU, "a_kernel_time")),
        *(kernel(10, 50, CPU, "loop_kernel_time"), kernel(60, 5, CPU), kernel(20, 7, CPU, tid=2)),
    ]
    assert _by_provider(events) == {CPU: pytest.approx(0.062)}

    from onnx import TensorProto, helper, save

    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [256, 256]) for name in ("x", "y", "s", "t")]
    flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("c", "d")]
    nodes = [
        helper.make_node("MatMul", ["s", "s"], ["t"], "mul"),
        helper.make_node("Identity", ["c"], ["d"], "id"),
    ]
    turn = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    body = helper.make_graph(nodes, "body", [turn, flags[0], ports[2]], [flags[1], ports[3]])
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=body)
    count = helper.make_tensor("n", TensorProto.INT64, [], [10])
    graph = helper.make_graph([loop], "g", ports[:1], ports[1:2], [count])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    seen = []
    monkeypatch.setattr(profile, "_by_provider", seen.extend)
    provider_times(PROVIDER, tmp_path / "m.onnx", {}, {"x": np.zeros((256, 256), np.float32)})
    monkeypatch.undo()
    runs = sorted(e["ts"] for e in seen if e["name"] == "model_run")
    loops = [e["dur"] for e in seen if e["name"] == "loop_kernel_time" and e["ts"] >= runs[1]]
    assert sum(e["name"] == "mul_kernel_time" for e in seen) == 10 * len(runs)
    assert _by_provider(seen)[CPU] == pytest.approx(sum(loops) / len(loops) / 1e3)


def test_on_a_gpu_kernels_count_and_not_how_long_it_took_to_launch_them():
    nodes = [
        kernel(10, 2, CUDA, "mul_kernel_time", op="MatMul"),
        kernel(12, 3, CPU, "shape_kernel_time", op="Shape"),
    ]
    kernels = [on_gpu(11, 400, op_name="MatMul"), on_gpu(420, 100, op_name="?", parent_name="mul_kernel_time")]
    assert _by_provider([*nodes, *kernels]) == {CUDA: pytest.approx(0.5), CPU: pytest.approx(0.003)}


def test_without_the_kernels_of_a_gpu_no_shares_are_told():
    assert _by_provider([kernel(10, 2, CUDA), kernel(12, 3, CPU)]) == {}


def test_a_recorded_graph_is_not_asked_for(onnx_file, monkeypatch):
    seen = []

    def stop(_provider, _path, options, _made):
        seen.append(options.enable_cuda_graph)
        raise InterruptedError

    monkeypatch.setattr(profile, "open_with", stop)
    with pytest.raises(InterruptedError):
        provider_times(nvidia.CUDA_PROVIDER, onnx_file("batch"), {"enable_cuda_graph": True}, {})
    assert seen == [False]


parser = pytest.importorskip("onnx.parser")

HEAD = '<ir_version: 9, opset_import: ["" : 17, "own" : 1]>'


@pytest.fixture
def written(tmp_path):
    """A model from its text."""

    def write(text, **save):
        import onnx

        path = tmp_path / "model.onnx"
        model = parser.parse_model(HEAD + text)
        for weight in model.graph.initializer:  # the parser's form stays inside the file
            weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), weight.name))
        onnx.save(model, path, **save)
        return path

    return write


def test_what_only_a_run_can_tell(written):
    path = written("""
        g (float[n, 4] x) => (int64[r, f] y) {
            same = Relu(x)
            same2 = Neg(same)
            found = NonZero(same2)
            y = Identity(found)
        }""")
    x = np.array([[1, 0, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0]], np.float32)
    shapes = real_shapes(path, {"x": x})
    assert shapes == {"x": (3, 4), "same": (3, 4), "same2": (3, 4), "found": (2, 3), "y": (2, 3)}
    assert list(path.parent.iterdir()) == [path]


def test_between_two_functions_of_the_model(written):
    path = written("""
        g (float[n] x) => (float[m] y) { a = own.twice(x) b = own.twice(a) y = own.twice(b) }
        <opset_import: ["" : 17], domain: "own">
        twice (x) => (y) { y = Concat <axis = 0> (x, x) }""")
    assert real_shapes(path, {"x": np.ones(3, np.float32)}) == {"x": (3,), "a": (6,), "b": (12,), "y": (24,)}


def test_the_last_turn_of_a_loop_and_the_branch_that_was_taken(written):
    path = written("""
        g (float[n] x, bool c) => (float[m] y, float[k] z) {
            turns = Constant <value = int64 {3}> ()
            y = Loop (turns, , x) <body = turn (int64 i, bool on, float[a] have) => (bool more, float[b] longer) {
                more = Identity(on)
                longer = Concat <axis = 0> (have, have)
            }>
            z = If (c) <
                then_branch = yes () => (float[k] grown) { grown = Concat <axis = 0> (x, x) },
                else_branch = no () => (float[k] kept) { kept = Relu(x) }
            >
        }""")
    shapes = real_shapes(path, {"x": np.ones(2, np.float32), "c": np.array(True)})
    assert (shapes["have"], shapes["longer"], shapes["y"]) == ((8,), (16,), (16,))
    assert (shapes["grown"], shapes["z"]) == ((4,), (4,))
    assert "kept" not in shapes


def test_one_name_in_two_branches_of_different_shapes_is_left_out(written):
    branch = (
        "then_branch = yes () => (float[k] v) {{ v = {} }}, else_branch = no () => (float[k] w) {{ w = Relu(x) }}"
    )
    path = written(f"""
        g (float[n] x, bool c) => (float[m] y, float[k] z) {{
            y = If (c) <{branch.format("Concat <axis = 0> (x, x)")}>
            z = If (c) <{branch.format("Neg(x)")}>
        }}""")
    shapes = real_shapes(path, {"x": np.ones(2, np.float32), "c": np.array(True)})
    assert shapes == {"x": (2,), "c": (), "y": (4,), "z": (2,)}


def test_sequences_have_no_shape_and_do_not_hide_the_others(written):
    path = written("""
        g (float[n] x) => (float[m] y, seq(float[n]) s) {
            s = SequenceConstruct(x, x)
            y = ConcatFromSequence <axis = 0> (s)
        }""")
    assert real_shapes(path, {"x": np.ones(2, np.float32)}) == {"x": (2,), "y": (4,)}


def test_weights_beside_the_model_are_found(written, tmp_path, monkeypatch):
    path = written(
        """g (float[1, 4] x) => (float[1, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
            h = MatMul(x, w)
            y = Neg(h)
        }""",
        save_as_external_data=True,
        size_threshold=0,
        location="w.bin",
        convert_attribute=True,
    )
    monkeypatch.chdir("/")
    assert (tmp_path / "w.bin").is_file()
    assert real_shapes(path, {"x": np.ones((1, 4), np.float32)})["h"] == (1, 2)


def test_data_that_does_not_fit_is_a_sentence(written):
    path = written("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run 'model\.onnx': .*[Gg]ot invalid dimensions"):
        real_shapes(path, {"x": np.ones(3, np.float32)})
