"""Random numbers in models, wherever they are drawn."""

import onnx
import onnx_ir as ir
import pytest

from edgeopt.errors import ModelError
from edgeopt.graph.randomness import check_not_random, random_nodes

HEAD = '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>'
PLAIN = "g (float[2,4] x) => (float[2,4] y)"

BRANCH = """g (float[2,4] x, bool c) => (float[2,4] y) { y = If (c) <
    then_branch = a () => (float[2,4] s) { s = RandomNormalLike(x) },
    else_branch = b () => (float[2,4] t) { t = Identity(x) }> }"""
FUNCTION = (
    PLAIN
    + """ { y = mine.noisy(x) }
    <domain: "mine", opset_import: ["" : 17]> noisy (x) => (y) { r = RandomUniformLike(x) y = Add(x, r) }"""
)


def model_of(text):
    return ir.serde.deserialize_model(onnx.parser.parse_model(HEAD + text))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (BRANCH, "RandomNormalLike"),
        (FUNCTION, "RandomUniformLike"),
        (f"{PLAIN} {{ r = RandomNormalLike(x) y = Add(x, r) }}", "RandomNormalLike"),
        (f"{PLAIN} {{ r = RandomUniform <shape = [2, 4], seed = 7.0> () y = Add(x, r) }}", "RandomUniform"),
        (f"{PLAIN} {{ y = Bernoulli(x) }}", "Bernoulli"),
        (f"{PLAIN} <float p = {{0.001}}, bool on = {{1}}> {{ y = Dropout(x, p, on) }}", "Dropout"),
    ],
)
def test_random_node_is_named_and_refused(body, kind):
    model = model_of(body)
    assert [node.op_type for node in random_nodes(model)] == [kind]
    with pytest.raises(ModelError, match=f"draws random numbers: 1 {kind}"):
        check_not_random(model)


@pytest.mark.parametrize(
    "body",
    [
        f"{PLAIN} {{ y = Dropout(x) }}",
        f"{PLAIN} <float p = {{0.5}}, bool on = {{0}}> {{ y = Dropout(x, p, on) }}",
        f"{PLAIN} <float p = {{0}}, bool on = {{1}}> {{ y = Dropout(x, p, on) }}",
    ],
)
def test_dropout_that_drops_nothing_is_not_random(body):
    check_not_random(model_of(body))
