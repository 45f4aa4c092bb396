import onnx_ir as ir
import pytest

from edgeopt.backends.onnxruntime.lowering.transformer import SKIP_NORMALIZATION
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion import normalizations
from edgeopt.graph.structure import infer_shapes
from tests.families import transformers


@pytest.fixture
def normalized():
    """A transformer whose layer normalizations are one operator each, for one batch size where one is given."""

    def build(name, batch=None):
        proto = getattr(transformers, name)(opset=17)
        if batch:
            proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = batch
        model = ir.from_proto(proto)
        infer_shapes(model)
        return normalizations.LAYER_NORMALIZATION.apply(model, PassContext()).model

    return build


def test_additions_go_into_the_normalizations_behind_them(normalized, lower, counted):
    result = lower(SKIP_NORMALIZATION, normalized("vit", batch=1))
    assert counted(result.model, "SkipLayerNormalization") == 5
    # All sums but the last go on to the next layer too, and the operator hands them out.
    assert sum(len(node.outputs) == 4 for node in result.model.graph) == 4


def test_it_runs_only_on_request():
    assert SKIP_NORMALIZATION.on_request


def test_says_where_shapes_are_not_known_to_be_equal(normalized, lower, said):
    assert "the shapes of the added tensors may differ" in said(lower(SKIP_NORMALIZATION, normalized("bert")))
