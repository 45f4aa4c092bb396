import subprocess
import sys

import msgspec
import numpy as np
import pytest
from onnx import TensorProto, helper, save

from edgeopt.commands.analyze.analyze import analyze, recorded_proofs
from edgeopt.commands.analyze.opportunities import tried_for
from edgeopt.data.demo import MODEL
from edgeopt.errors import BundleError, DataError, ModelError, UsageError
from edgeopt.events import Progress
from edgeopt.graph.accuracy import OutputAccuracy
from edgeopt.graph.analysis import ProvedOutput
from tests.commands.report.evidence import outcome, put_evidence

QUICK = {"coverage": False, "opportunities": False}
"""Nothing is asked of runtimes and passes."""


@pytest.mark.cold
def test_a_quick_look_imports_no_backend_and_no_pass(conv_model):
    program = (
        "import sys\n"
        "from edgeopt.commands.analyze.analyze import analyze\n"
        f"found = analyze({str(conv_model)!r}, coverage=False, opportunities=False, run=False)\n"
        "assert found.nodes\n"
        "slow = ('edgeopt.backends', 'edgeopt.graph.passes', 'onnxruntime', 'openvino', 'onnxscript')\n"
        "print([name for name in slow if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_backend_that_is_not_there_is_refused_by_a_quick_look_too(conv_model):
    with pytest.raises(UsageError, match="no-such"):
        analyze(conv_model, **QUICK, backends=("no-such",))


def test_a_model_has_no_deployment(conv_model):
    found = analyze(conv_model, **QUICK)
    assert (found.kind, found.deployment) == ("model", None)


def test_a_bundle_is_its_model_and_what_it_says_of_itself(conv_bundle, conv_model):
    said = []
    found, model = analyze(conv_bundle, said.append, **QUICK), analyze(conv_model, **QUICK)
    assert (found.kind, found.name, found.path) == ("bundle", "conv.edgeopt", str(conv_bundle))
    assert (found.nodes, found.operators, found.digest) == (model.nodes, model.operators, model.digest)
    deployment = found.deployment
    assert (deployment.backend, deployment.options) == ("onnxruntime-cpu", {"threads": 1})
    assert (deployment.speedup, deployment.accuracy_db, deployment.verdict) == (2.0, 200.0, "faster")
    assert {type(event) for event in said} == {Progress}
    assert [event.phase for event in said][:2] == ["checking digests", "reading the model"]


def test_what_the_search_for_a_bundle_has_tried_is_no_opportunity(bundle):
    asked = {**QUICK, "opportunities": True}
    all_of_them = {each.kind for each in analyze(bundle, **asked).opportunities}
    put_evidence(bundle, outcome())
    left = {each.kind for each in analyze(bundle, **asked).opportunities}
    tried = tried_for(outcome())
    assert all_of_them & tried
    assert left == all_of_them - tried
    assert tried_for("The bundle holds no evidence.json.") == frozenset()


def test_a_bundle_without_evidence(bundle, change_deployment):
    change_deployment(bundle, evidence=None)
    assert analyze(bundle, **QUICK).deployment.speedup is None


def test_a_bundle_with_an_openvino_model(bundle, change_deployment, conv_model):
    openvino = pytest.importorskip("openvino")
    from edgeopt.bundle.deployment import Run

    openvino.save_model(openvino.convert_model(conv_model), bundle / "model" / "conv.xml")
    change_deployment(bundle, run=Run("openvino-cpu", "model/conv.xml"))
    found = analyze(bundle, **QUICK)
    assert (found.kind, found.format) == ("bundle", "OpenVINO IR")
    assert found.nodes_count > 3


def test_a_damaged_bundle_is_refused(bundle):
    (bundle / "ledger.json").write_text("")
    with pytest.raises(BundleError, match=r"ledger\.json"):
        analyze(bundle)


def test_a_bundle_that_is_not_there(tmp_path):
    with pytest.raises(BundleError, match="no bundle"):
        analyze(tmp_path / "nowhere.edgeopt")


def test_what_it_costs_what_would_run_it_and_what_could_be_done(conv_model):
    found = analyze(conv_model)
    assert found.work.operations > 0
    assert {row.backend for row in found.coverage} >= {"onnxruntime-cpu"}
    assert any("Identity_2" in "".join(each.nodes) for each in found.opportunities)
    for each in found.opportunities:
        assert each.kind
        assert each.reason
        assert each.command
        assert each.basis
    gains = [each.gain_share for each in found.opportunities]
    known = [gain for gain in gains if gain is not None]
    assert known
    assert known == sorted(known, reverse=True)
    assert gains[: len(known)] == known


def test_the_time_that_passes_get_is_enough_for_a_small_model():
    notes = analyze(MODEL, coverage=False).warnings
    assert not [note for note in notes if "no time" in note]


def test_what_is_not_wanted_is_left_out(conv_model):
    found = analyze(conv_model, **QUICK)
    assert (found.coverage, found.opportunities) == ((), ())
    named = analyze(conv_model, backends=["onnxruntime-cpu"], opportunities=False)
    assert [row.backend for row in named.coverage] == ["onnxruntime-cpu"]


def test_the_figures_are_for_the_shapes_that_are_asked_for(conv_model):
    one = analyze(conv_model, **QUICK)
    four = analyze(conv_model, **QUICK, shapes={"x": (4, 3, 16, 16)})
    assert four.work.macs == 4 * one.work.macs
    assert four.work.shapes == ("batch = 4 (given)",)
    assert one.work.shapes == ("batch = 1 (assumed)",)
    with pytest.raises(UsageError, match="no input 'y'"):
        analyze(conv_model, **QUICK, shapes={"y": (1,)})


def test_the_users_data_say_the_shapes(matmul_model, tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 5, 32), np.float32))
    found = analyze(matmul_model, **QUICK, data=tmp_path / "d.npz")
    assert found.work.shapes == ("batch = 5 (given)",)
    with pytest.raises(DataError, match="no data"):
        analyze(matmul_model, **QUICK, data=tmp_path / "nothing.npz")


@pytest.fixture
def data_dependent(tmp_path):
    """How many rows the product has depends on the numbers in the input."""
    ports = [
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 64])],
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1, 64], np.ones(64, np.float32))
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"], "nonzero"),
        helper.make_node("Transpose", ["n"], ["t"], "transpose", perm=[1, 0]),
        helper.make_node("Cast", ["t"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "w"], ["y"], "product"),
    ]
    path = tmp_path / "nonzero.onnx"
    graph = helper.make_graph(nodes, "g", *ports, [weight])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_shapes_that_only_a_run_tells(data_dependent, tmp_path):
    unseen = analyze(data_dependent, **QUICK, run=False)
    assert unseen.work.unknown > 0
    np.savez(tmp_path / "d.npz", x=np.array([[1, 0, 1, 0, 1, 0, 0, 0]], np.float32))
    seen = analyze(data_dependent, **QUICK, data=tmp_path / "d.npz")
    assert seen.work.unknown == 0
    # Three numbers are not zero, so the product is 3 x 1 x 64.
    assert next(row for row in seen.nodes if row.name == "product").cost.macs == 3 * 64


def test_a_model_that_cannot_be_run_is_analyzed_nevertheless(tmp_path):
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in "xy"]
    node = helper.make_node("Odd", ["x"], ["y"], "odd", domain="mine")
    path = tmp_path / "odd.onnx"
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    save(helper.make_model(helper.make_graph([node], "g", *ports), opset_imports=opsets, ir_version=8), path)
    found = analyze(path, backends=["onnxruntime-cpu"], opportunities=False)
    assert found.work.unknown == 1
    assert any("could not be run to find unknown shapes" in note for note in found.warnings)
    assert {row.backend: row.unsupported for row in found.coverage}["onnxruntime-cpu"] == ("Odd: odd",)


def test_what_is_no_model_is_told_before_anything_is_asked(tmp_path):
    with pytest.raises(ModelError):
        analyze(tmp_path / "nothing.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(ModelError, match="text file"):
        analyze(tmp_path / "text.onnx")
    with pytest.raises(UsageError, match="no backend"):
        analyze(tmp_path / "nothing.onnx", backends=["nobody"])


def test_the_record_of_a_bundle_tells_each_output(tmp_path):
    told = OutputAccuracy("a", 40.5, 0.1, 0.1, 0.9, (), (), agreement=0.5)
    proof = {"verdict": "faster", "outputs": [told, {"name": "b", "snr_db": None, "counted": True}]}
    (tmp_path / "evidence.json").write_bytes(msgspec.json.encode({"candidates": [], "proof": proof}))
    assert recorded_proofs(tmp_path).outputs == (
        ProvedOutput("a", 40.5, 0.5),
        ProvedOutput("b", None, counted=True),
    )


@pytest.mark.parametrize("written", [None, b"", b"{", b"[]", b'{"proof": null}', b'{"proof": {"outputs": [1]}}'])
def test_a_record_that_tells_nothing_or_is_damaged_gives_no_outputs(tmp_path, written):
    if written is not None:
        (tmp_path / "evidence.json").write_bytes(written)
    assert recorded_proofs(tmp_path).outputs == ()
