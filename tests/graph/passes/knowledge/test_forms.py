import onnx_ir as ir
import pytest

from edgeopt.graph.passes.algebra import constants
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.knowledge.forms import spelled_out
from edgeopt.graph.structure import infer_shapes
from tests.families import transformers


@pytest.fixture
def family():
    def build(name):
        model = ir.from_proto(getattr(transformers, name)(opset=17))
        infer_shapes(model)
        return model

    return build


def test_knows_what_is_spelled_out(family):
    assert set(spelled_out(family("bert")).values()) == {"GELU", "layer normalization"}
    assert set(spelled_out(family("t5")).values()) == {"GELU", "RMS normalization"}


@pytest.mark.parametrize(("name", "count"), [("bert", 2), ("t5", 2)])
def test_scales_of_a_gelu_do_not_go_into_the_weights_behind_it(family, name, count):
    result = constants.apply_scale_into_linear(family(name), PassContext())
    assert sum(kind == "GELU" for kind in _roots(result.model)) == count


def _roots(model):
    """One word for every operator that is spelled out: its heart is an Erf, a Tanh or a ReduceMean."""
    return [kind for node, kind in spelled_out(model).items() if node.op_type in {"Erf", "Tanh"}]
