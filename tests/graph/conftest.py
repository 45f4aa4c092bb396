"""Small models from onnx's text form, and onnx's own evaluator to compare them with."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgeopt.graph.passes.base import PassContext, nodes_of
from tests.graph import in_runtimes


@pytest.fixture
def results():
    """What a graph computes, by onnx's reference evaluator."""

    def run(model_ir, **feeds):
        return ReferenceEvaluator(ir.to_proto(model_ir)).run(None, feeds)

    return run


@pytest.fixture
def kinds():
    """The operators in order, those in subgraphs too, of a model in onnx_ir: `model.ir`, or `result.model`."""

    def operators(model_ir):
        return [node.op_type for node in nodes_of(model_ir)]

    return operators


@pytest.fixture
def apply_pass(results):
    """Applies a pass, sees to it that its input stays as it is and that the results stay the same."""

    def apply(one, model, tolerance=0.0, **feeds):
        before = ir.to_proto(model.ir).SerializeToString()
        result = one.apply(model.ir, PassContext())
        assert ir.to_proto(model.ir).SerializeToString() == before, "a pass must not change the model it gets"
        onnx.checker.check_model(ir.to_proto(result.model))
        wanted = results(model.ir, **feeds)
        for right, got in zip(wanted, results(result.model, **feeds), strict=True):
            np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance)
        if result.applied:
            in_runtimes.check(ir.to_proto(model.ir), ir.to_proto(result.model), feeds, wanted)
        return result

    return apply


@pytest.fixture
def reasons():
    """The refusals of a pass as sentences."""

    def sentences(result):
        return " | ".join(refusal.reason for refusal in result.refused)

    return sentences


@pytest.fixture
def image():
    return np.random.default_rng(7).standard_normal((1, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def conv_and_norm():
    """The weights of a Conv with 4 channels and of the batch normalization behind it."""
    random = np.random.default_rng(3)
    positive = [np.abs(random.standard_normal(4)).astype(np.float32) + 0.5 for _ in range(2)]
    shift, mean = (random.standard_normal(4).astype(np.float32) for _ in range(2))
    weight = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    return {"w": weight, "scale": positive[0], "shift": shift, "mean": mean, "variance": positive[1]}


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path


@pytest.fixture
def shaped():
    """A model with all the shapes that can be known, as the pipeline hands it to the passes."""
    from edgeopt.graph.shapes.infer import infer_shapes

    def infer(model):
        infer_shapes(model.ir)
        return model

    return infer


@pytest.fixture
def external_model(write_model):
    """A model with its weight (400 floats) in a file beside it."""
    path = write_model("g (float[400] x) => (float[400] y) { y = Add(x, w) }", w=np.arange(400, dtype=np.float32))
    proto = onnx.load(path)
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path
