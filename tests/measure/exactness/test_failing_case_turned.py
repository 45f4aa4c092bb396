"""A pass goes wrong after the pictures were turned: the case holds a sample in the order of the model in it."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.graph.ledger import Change
from edgeopt.graph.model import load
from edgeopt.graph.passes.base import Pass, PassContext, PassResult, label
from edgeopt.graph.passes.layout import picture_order
from edgeopt.graph.pipeline import run_pipeline
from edgeopt.measure.exactness.failing_case import keep_case
from edgeopt.measure.exactness.proof import SourceCheck

pytest.importorskip("onnxruntime", reason="cases are tried in ONNX Runtime")
TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,8,6] x) => (float[1,4,6,4] y) {
    a = Abs(x) c = Conv(a, w) y = Relu(c) }"""


def blind(model, context):
    """Makes Neg of Relu and of Abs."""
    model = model.clone()
    found = [node for node in model.graph if node.op_type in {"Relu", "Abs"}]
    for node in found:
        node.op_type = "Neg"
    return PassResult(model, (Change("made it wrong", tuple(map(label, found))),) if found else ())


@pytest.fixture
def model(tmp_path):
    proto = onnx.parser.parse_model(TEXT)
    weight = np.random.default_rng(4).standard_normal((4, 3, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(proto, tmp_path / "model.onnx")
    return load(tmp_path / "model.onnx")


def test_the_guilty_pass_is_found_and_its_case_can_be_run(model, tmp_path):
    context = PassContext(layout=picture_order.LAST)
    check = SourceCheck.of(model, None)
    kept = []
    try:
        result = run_pipeline(
            model,
            also=("picture-order",),
            check=check.why_wrong,
            keep=lambda failure: kept.append(keep_case(failure, check, tmp_path / "cases")) or kept[-1],
            passes=(picture_order.PASS, Pass("blind", "wrong", blind)),
            context=context,
        )
    finally:
        check.close()
    assert [e.pass_name for e in result.ledger if e.rolled_back] == ["blind"]
    assert [tuple(v.shape) for v in (*result.model_ir.graph.inputs, *result.model_ir.graph.outputs)] == [
        (1, 8, 6, 3),
        (1, 6, 4, 4),
    ]
    (folder,) = map(Path, kept)
    before = onnx.load(folder / "before.onnx")
    with np.load(folder / "sample.npz") as sample:
        for value in before.graph.input:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            assert list(sample[value.name].shape[1:]) == shape  # the first counts the samples
