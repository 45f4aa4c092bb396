import numpy as np
import pytest

from edgeopt.errors import MissingError, UsageError
from edgeopt.graph.analysis import NodeRow
from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.records import AnalysisOptions
from edgeopt.hw.device import ComputePeak, MemoryPeak, Peaks
from edgeopt.measure.op_times import Timing, profile_ops, timeable
from tests.conftest import this_device

parser = pytest.importorskip("onnx.parser")
pytest.importorskip("onnxruntime")

QUICK = Timing(threads=1, runs=3)
HEAD = '<ir_version: 9, opset_import: ["" : 17, "own" : 1]>'
WEIGHT = f"<float[16, 16, 3, 3] w = {{{', '.join(['0.1'] * 2304)}}}, float[16] one = {{{', '.join(['1'] * 16)}}}>"
NET = f"""g (float[n, 16, 32, 32] x) => (float[n, 16, 30, 30] y) {WEIGHT} {{
    c = Conv (x, w)
    b = BatchNormalization (c, one, one, one, one)
    r = Relu (b)
    y = Exp (r)
}}"""
PICTURE = {"x": np.ones((1, 16, 32, 32), np.float32)}


@pytest.fixture
def timed(tmp_path):
    """A model, given as its text, timed on some backends."""

    def time(text, feeds, *backends, timing=QUICK):
        import onnx

        path = tmp_path / "model.onnx"
        onnx.save(parser.parse_model(HEAD + text), path)
        analysis = analyze_onnx(path, AnalysisOptions({name: array.shape for name, array in feeds.items()}))
        return profile_ops(path, analysis, backends, feeds, timing)

    return time


def test_each_kernel_has_its_nodes_and_what_they_cost_together(timed):
    """The nodes have no names, so they are called by what they give."""
    (found,) = timed(NET, PICTURE, "onnxruntime-cpu")
    conv = next(row for row in found.rows if set(row.members) >= {"c", "r"} and not row.added)
    assert "convolution" in conv.categories
    assert conv.members[0] == "c"
    products = 16 * 30 * 30 * 16 * 9
    assert 2 * products <= conv.operations <= 2.2 * products
    # Only the picture, the weights and the result move: what is between the nodes stays in the kernel.
    assert conv.moved_bytes < 4 * (16 * 32 * 32 + 2304 + 16 * 30 * 30 + 200)
    assert sum(row.share for row in found.rows) == pytest.approx(1.0)
    assert found.attributed_share == 1.0
    assert found.rows == tuple(sorted(found.rows, key=lambda row: -row.time_ms))
    assert (found.backend, found.threads, found.runs, found.reason) == ("onnxruntime-cpu", 1, 3, "")
    assert found.plain_ms > 0
    assert "edgeopt_" not in str(found)


def test_openvino_tells_the_same_nodes(timed):
    pytest.importorskip("openvino")
    (found,) = timed(NET, PICTURE, "openvino-cpu")
    conv = next(row for row in found.rows if row.operator == "Convolution")
    assert set(conv.members) == {"c", "b", "r"}
    assert found.attributed_share == 1.0


def test_what_the_peaks_allow_is_told_with_what_it_is_spent_on(timed):
    compute = tuple(ComputePeak("any", kind, 1, 1e9, "MatMul") for kind in ("fp32", "bf16"))
    peaks = Peaks("2026-05-04T10:00:00+00:00", 1.0, compute, (MemoryPeak("memory", 1, 1 << 20, 1e12, 1e12),))
    import msgspec

    device = msgspec.structs.replace(this_device(), peaks=peaks)
    (found,) = timed(NET, PICTURE, "onnxruntime-cpu", timing=Timing(threads=1, runs=3, device=device))
    conv = next(row for row in found.rows if "c" in row.members and not row.added)
    assert conv.bound == "compute"
    assert conv.least_ms == pytest.approx(conv.operations / 1e6)


def test_functions_and_ifs_that_are_known_are_opened_first(timed):
    text = """
        g (float[256, 256] x) => (float[256, 256] y) {
            yes = Constant <value = bool {1}> ()
            [call] a = own.squared (x)
            [choice] y = If (yes) <
                then_branch = t () => (float[256, 256] p) { [mul] p = MatMul (a, a) },
                else_branch = e () => (float[256, 256] q) { [other] q = Neg (a) }
            >
        }
        <opset_import: ["" : 17], domain: "own">
        squared (x) => (z) { m = MatMul (x, x) z = Exp (m) }"""
    (found,) = timed(text, {"x": np.zeros((256, 256), np.float32)}, "onnxruntime-cpu")
    by_members = {row.members: row.operator for row in found.rows}
    assert by_members[("mul",)] == "MatMul"
    assert ("call",) in by_members
    assert not {"If"} & set(by_members.values())
    assert next(row for row in found.rows if row.members == ("mul",)).operations == 2 * 256**3


def test_the_nodes_of_a_loop_count_as_often_as_they_run(timed):
    text = """
        g (float[64, 64] x) => (float[64, 64] y) {
            turns = Constant <value = int64 {5}> ()
            [loop] y = Loop (turns, , x) <
                body = t (int64 i, bool on, float[64, 64] s) => (bool more, float[64, 64] r) {
                    more = Identity (on)
                    [mul] r = MatMul (s, s)
                }
            >
        }"""
    (found,) = timed(text, {"x": np.zeros((64, 64), np.float32)}, "onnxruntime-cpu")
    rows = {row.members: row for row in found.rows}
    assert rows[("mul",)].operations == 5 * 2 * 64**3
    assert rows[("loop",)].operations is None


def test_weights_beside_the_model_are_found_from_its_copy(tmp_path):
    import onnx

    path = tmp_path / "model.onnx"
    model = parser.parse_model(HEAD + NET)
    for weight in model.graph.initializer:
        weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), weight.name))
    onnx.save(model, path, save_as_external_data=True, size_threshold=2048, location="w.bin")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    analysis = analyze_onnx(path, AnalysisOptions({"x": (1, 16, 32, 32)}))
    (found,) = profile_ops(path, analysis, ("onnxruntime-cpu",), PICTURE, QUICK)
    assert found.attributed_share == 1.0
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_runtime_that_crashes_is_a_reason(timed, tmp_path, monkeypatch):
    (tmp_path / "falls.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("edgeopt.workers.host.WORKER_MODULE", "falls")
    (found,) = timed(NET, PICTURE, "onnxruntime-cpu")
    assert found.reason == "its process crashed: SIGSEGV"
    assert (found.rows, found.attributed_share) == ((), 0.0)


def test_what_a_runtime_cannot_load_is_a_reason_and_the_others_are_timed(timed):
    pytest.importorskip("openvino")
    text = "g (float[2, 2] x) => (float y) { d = Det (x) y = Exp (d) }"
    first, second = timed(text, {"x": np.eye(2, dtype=np.float32)}, "openvino-cpu", "onnxruntime-cpu")
    assert "OpenVINO cannot read" in first.reason
    assert (first.rows, first.run_ms) == ((), 0.0)
    assert {row.operator for row in second.rows} == {"Det", "Exp"}


def test_a_backend_that_is_not_here_and_one_that_tells_no_times(timed):
    with pytest.raises(MissingError, match="The backend onnxruntime-cuda is not available: "):
        timed(NET, PICTURE, "onnxruntime-cuda")
    with pytest.raises(UsageError, match="The backend null reports no times of single nodes") as caught:
        timed(NET, PICTURE, "null")
    assert "onnxruntime-cpu" in caught.value.hint


def test_which_backends_can_be_asked(tmp_path):
    assert "onnxruntime-cpu" in timeable(tmp_path / "m.onnx")
    assert "onnxruntime-cpu" not in timeable(tmp_path / "m.xml")


def test_a_model_of_openvinos_own_is_timed_as_it_is(tmp_path):
    openvino = pytest.importorskip("openvino")
    import onnx

    from edgeopt.graph.analysis.openvino_ir import analyze_ir

    onnx.save(parser.parse_model(HEAD + NET), tmp_path / "model.onnx")
    openvino.save_model(openvino.convert_model(str(tmp_path / "model.onnx")), tmp_path / "model.xml")
    analysis = analyze_ir(tmp_path / "model.xml")
    (found,) = profile_ops(tmp_path / "model.xml", analysis, ("openvino-cpu",), PICTURE, QUICK)
    assert found.attributed_share > 0.95
    assert all(isinstance(row, NodeRow) for row in analysis.nodes)
    assert "Convolution" in {row.operator for row in found.rows}
