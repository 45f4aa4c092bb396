from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.graph.ledger import Change
from edgeopt.graph.model import load
from edgeopt.graph.passes.base import Pass, PassContext, PassResult, label
from edgeopt.graph.pipeline import Failure
from edgeopt.graph.shapes import infer_shapes
from edgeopt.measure.exactness.failing_case import keep_case
from edgeopt.measure.exactness.proof import SourceCheck

pytest.importorskip("onnxruntime", reason="cases are tried in ONNX Runtime")
TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,4] x) => (float[1,4] y) {
    a = Exp(x)  b = Abs(a)  c = Sqrt(b)  d = Abs(c)  e = Mul(d, w)  y = Tanh(e) }"""


def wrong(wanted):
    """A pass that makes Neg of the operators that it is told: right for none of them."""

    def apply(model, context):
        model = model.clone()
        found = [node for node in model.graph if node.op_type in wanted]
        names = tuple(label(node) for node in found)
        for node in found:
            node.op_type = "Neg"
        return PassResult(model, (Change("made it wrong", names),) if found else ())

    return Pass("wrong", "wrong", apply)


@pytest.fixture
def failure(tmp_path):
    """A failing pass on a model that is proved, and what proved it."""
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full((1, 4), 0.5, np.float32), "w"))
    onnx.save(proto, tmp_path / "model.onnx")
    model = load(tmp_path / "model.onnx")
    infer_shapes(model.ir)  # as the pipeline does
    check = SourceCheck.of(model, None)

    def of(*wanted):
        guilty = wrong(wanted)
        after = guilty.apply(model.ir, PassContext()).model
        return Failure(guilty, model.ir, after, PassContext(), check.why_wrong(after)), check

    yield of
    check.close()


def kinds(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def test_the_case_is_the_changed_nodes_alone_with_the_values_that_reach_them(failure, tmp_path):
    folder = Path(keep_case(*failure("Sqrt"), tmp_path / "cases"))
    assert (kinds(folder / "before.onnx"), kinds(folder / "after.onnx")) == (["Sqrt"], ["Neg"])
    with np.load(folder / "sample.npz") as sample:
        assert {name: array.shape for name, array in sample.items()} == {"b": (1, 1, 4)}
    text = (folder / "README.md").read_text()
    assert "The pass `wrong`" in text
    assert "dB" in text


def test_of_several_groups_the_smallest_that_fails_is_kept(failure, tmp_path):
    folder = Path(keep_case(*failure("Mul", "Tanh", "Sqrt"), tmp_path / "cases"))
    assert kinds(folder / "before.onnx") == ["Sqrt"]


def test_a_second_case_does_not_replace_the_first(failure, tmp_path):
    first, second = (keep_case(*failure("Sqrt"), tmp_path) for _ in range(2))
    assert first != second
    assert Path(first).is_dir()
    assert Path(second).is_dir()


def test_the_kept_case_shows_the_fault_again(failure, tmp_path):
    """What the README says to run: both models on the sample give different results."""
    import onnxruntime as ort

    folder = Path(keep_case(*failure("Tanh"), tmp_path))
    with np.load(folder / "sample.npz") as archive:
        feeds = {name: array[0] for name, array in archive.items()}
    before, after = (
        ort.InferenceSession(str(folder / name), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for name in ("before.onnx", "after.onnx")
    )
    assert not np.allclose(before, after)
