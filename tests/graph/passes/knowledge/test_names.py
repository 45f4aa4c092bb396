import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.batchnorm import INTO_CONV
from edgeopt.graph.passes.knowledge.names import separate_names

TEXT = """g (float[2] x, bool p) => (float[2] y, float[2] z) {
    a = Relu(x) z = Neg(a) y = If (p) <
        then_branch = t () => (float[2] u) { b = Exp(x) u = Add(b, w) },
        else_branch = e () => (float[2] v) { b = Abs(x) v = Add(b, w) } > }"""


def named(model):
    return {value.name: value for part in model.graphs() for node in part for value in node.outputs}


def test_a_name_taken_outside_a_subgraph_is_not_given_again(make_model, results):
    model = make_model(TEXT, w=np.float32([1, 2])).ir
    feeds = {"x": np.float32([3, -4]), "p": np.array(True)}
    wanted = results(model, **feeds)
    named(model)["b"].name = "a"  # in the last branch
    named(model)["u"].name = "w"  # hides the weight that its own node reads
    separate_names(model)
    assert [value.name for value in model.graph.outputs] == ["y", "z"]
    assert "a_2" in named(model)
    assert "w_2" in named(model)
    for old, new in zip(wanted, results(model, **feeds), strict=True):
        np.testing.assert_array_equal(new, old)


def test_branches_side_by_side_keep_their_names(make_model):
    model = make_model(TEXT, w=np.float32([1, 2])).ir
    before = ir.to_proto(model).SerializeToString()
    separate_names(model)
    assert ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize("taken", ["n_folded_weight", "n_folded_bias"])
def test_weights_that_a_pass_made_do_not_clash(make_model, results, conv_and_norm, image, taken):
    norm = "BatchNormalization (c, scale, shift, mean, variance)"
    text = (
        f"g (float[1,3,8,8] x) => (float[1,4,6,6] y) {{ {taken} = Relu(x) c = Conv({taken}, w) [n] y = {norm} }}"
    )
    model = make_model(text, **conv_and_norm)
    folded = INTO_CONV.apply(model.ir, PassContext()).model
    np.testing.assert_allclose(results(folded, x=image)[0], results(model.ir, x=image)[0], rtol=1e-4, atol=1e-4)
