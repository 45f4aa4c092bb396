"""Transformers of every kind, and what ONNX Runtime computes of them as they are written."""

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.structure import infer_shapes
from tests.families import transformers
from tests.families.exporter import feeds_of


@pytest.fixture(scope="session")
def family():
    """A small transformer by its name, with its shapes, as the pipeline hands it to passes."""

    def build(name, **options):
        model = ir.from_proto(getattr(transformers, name)(opset=17, **options))
        infer_shapes(model)
        return model

    return build


@pytest.fixture(scope="session")
def run():
    """Runs a model without any optimization of the runtime's own."""
    runtime = pytest.importorskip("onnxruntime")

    def outputs(model, feeds):
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = runtime.InferenceSession(ir.to_proto(model).SerializeToString(), options)
        return session.run(None, feeds)

    return outputs


def wiring(model):
    """What is computed from what; not the bytes, because reading a constant gives its tensor a name."""
    return [(node.op_type, list(node.input), list(node.output)) for node in ir.to_proto(model).graph.node]


@pytest.fixture
def lower(run):
    """Applies a lowering and sees to it that ONNX Runtime computes the same."""

    def apply(one, model):
        before = wiring(model)
        result = one.apply(model, PassContext())
        assert wiring(model) == before, "a pass must not change the model it gets"
        feeds = feeds_of(ir.to_proto(model))
        for wanted, got in zip(run(model, feeds), run(result.model, feeds), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=2e-5)
        return result

    return apply


@pytest.fixture
def counted():
    """How often a model has an operator."""

    def count(model, operator):
        return sum(node.op_type == operator for graph in model.graphs() for node in graph)

    return count


@pytest.fixture
def said():
    """The refusals of a pass as sentences."""

    def sentences(result):
        return " | ".join(refusal.reason for refusal in result.refused)

    return sentences
