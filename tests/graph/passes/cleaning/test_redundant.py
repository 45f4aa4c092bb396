import numpy as np
import onnx_ir as ir

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.redundant import (
    DEAD_NODES,
    DEDUPLICATE_WEIGHTS,
    EQUAL_SUBEXPRESSIONS,
    STRIP_METADATA,
)

X = np.float32([1, -2])


def test_what_no_output_needs_goes_away(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { dead = Exp(x)  deader = Add(dead, w)  y = Neg(x) }"
    result = apply_pass(DEAD_NODES, make_model(text, w=np.float32([1, 2])), x=X)
    assert kinds(result.model) == ["Neg"]
    assert not result.model.graph.initializers
    assert [c.what for c in result.applied] == ["removed 2 nodes that no output needs", "removed 1 unused weight"]


def test_an_unused_input_stays(make_model, apply_pass):
    model = make_model("g (float[2] x, float[2] z) => (float[2] y) { y = Neg(x) }")
    assert [i.name for i in apply_pass(DEAD_NODES, model, x=X, z=X).model.graph.inputs] == ["x", "z"]


def test_an_unused_function_goes_away(make_model, apply_pass):
    function = '<domain: "own", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }'
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }", functions=function)
    result = apply_pass(DEAD_NODES, model, x=X)
    assert not result.model.functions
    assert "removed 1 unused function" in [c.what for c in result.applied]


def test_inside_a_branch_with_its_weights(make_model, apply_pass, kinds):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) <float[2] v = {1, 2}> { dead = Add(x, v)  a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    result = apply_pass(DEAD_NODES, make_model(text), x=X, c=np.array(True))
    assert sorted(kinds(result.model)) == ["If", "Neg", "Relu"]
    assert all(not graph.initializers for graph in result.model.graphs())


SQUARE = np.float32([[1, -2], [3, 4]])


def test_equal_weights_are_kept_once(make_model, apply_pass):
    text = "g (float[2,2] x) => (float[2,2] y) { a = Add(x, v)  y = Mul(a, w) }"
    result = apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, v=SQUARE, w=SQUARE.copy()), x=SQUARE)
    assert list(result.model.graph.initializers) == ["v"]
    assert result.applied[0].what == "merged 1 equal weight (16 bytes)"


def test_biases_are_not_shared(make_model, apply_pass):
    text = "g (float[2,2] x) => (float[2,2] y) { a = Gemm(x, v, b)  y = Gemm(a, v, c) }"
    bias = np.float32([0.5, 1])
    assert not apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, v=SQUARE, b=bias, c=bias.copy()), x=SQUARE).applied


def test_scalars_and_vectors_of_integers_are(make_model, apply_pass):
    text = """g (float[2,2] x) => (float[2,2] y) {
        a = Add(x, s)  b = Mul(a, t)  c = Reshape(b, m)  y = Reshape(c, n) }"""
    one, shape = np.float32(1.5), np.int64([2, 2])
    result = apply_pass(
        DEDUPLICATE_WEIGHTS, make_model(text, s=one, t=one.copy(), m=shape, n=shape.copy()), x=SQUARE
    )
    assert result.applied[0].what == "merged 2 equal weights (20 bytes)"


def test_same_bytes_of_another_type_or_shape_are_not_equal(make_model, apply_pass):
    text = """g (float[2,2] x) => (float[1,2,2] y) {
        a = Add(x, v)  i = Cast <to = 1> (k)  b = Mul(a, i)  y = Add(b, w) }"""
    model = make_model(text, v=np.zeros((2, 2), "f"), w=np.zeros((1, 2, 2), "f"), k=np.zeros((2, 2), np.int32))
    assert not apply_pass(DEDUPLICATE_WEIGHTS, model, x=SQUARE).applied


def test_minus_zero_is_not_zero(make_model, apply_pass):
    text = "g (float x) => (float y) { a = Div(x, v)  b = Div(x, w)  y = Max(a, b) }"
    model = make_model(text, v=np.float32(0.0), w=np.float32(-0.0))
    with np.errstate(divide="ignore"):
        assert not apply_pass(DEDUPLICATE_WEIGHTS, model, x=np.float32(1)).applied


def test_a_branch_uses_the_weight_of_the_graph_around_it(make_model, apply_pass):
    text = """g (bool c, float[2,2] x) => (float[2,2] y) {
        r = Add(x, w)
        y = If (c) <then_branch = t () => (float[2,2] a) <float[2,2] v = {1, -2, 3, 4}> { a = Add(r, v) },
                    else_branch = e () => (float[2,2] b) { b = Neg(r) }> }"""
    result = apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, w=SQUARE), x=SQUARE, c=np.array(True))
    assert [len(graph.initializers) for graph in result.model.graphs()] == [1, 0, 0]


def test_a_weight_that_is_an_input_can_be_fed_and_stays(make_model, apply_pass):
    text = "g (float[2,2] x, float[2,2] v) => (float[2,2] y) { a = Add(x, v)  y = Mul(a, w) }"
    assert not apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, v=SQUARE, w=SQUARE.copy()), x=SQUARE).applied


def test_what_exporters_leave_behind_goes_away(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    node = model.ir.graph[0]
    node.doc_string = "File /home/somebody/train.py, line 3"
    node.metadata_props["stack_trace"] = "secret"
    node.outputs[0].metadata_props["origin"] = "secret"
    model.ir.doc_string = "made by somebody"
    result = apply_pass(STRIP_METADATA, model, x=np.float32([1, 2]))
    written = ir.to_proto(result.model).SerializeToString()
    assert b"secret" not in written
    assert b"somebody" not in written
    assert result.applied[0].what == "cleared notes of the exporter in 3 places"


def test_the_models_own_metadata_stays(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    model.ir.metadata_props["names"] = "cat,dog"
    result = apply_pass(STRIP_METADATA, model, x=np.float32([1, 2]))
    assert result.model.metadata_props["names"] == "cat,dog"
    assert not result.applied


def test_exporters_names_and_paths_go_away_and_a_quantizers_stays(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    model.ir.producer_name, model.ir.producer_version = "pytorch", "2.1"
    extra = {"pkg.torch.export.graph": "secret", "source": "/home/somebody/best.pt", "stride": "32"}
    model.ir.metadata_props.update(extra)
    result = apply_pass(STRIP_METADATA, model, x=np.float32([1, 2]))
    assert dict(result.model.metadata_props) == {"stride": "32"}
    assert not result.model.producer_name
    assert "dropped the name of the exporter (pytorch)" in [change.what for change in result.applied]
    model.ir.producer_name = "onnx.quantize"
    assert apply_pass(STRIP_METADATA, model, x=np.float32([1, 2])).model.producer_name == "onnx.quantize"


def test_inside_a_branch(make_model, apply_pass):
    model = make_model("""g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }""")
    model.ir.graph[0].attributes["then_branch"].as_graph()[0].doc_string = "secret"
    result = apply_pass(STRIP_METADATA, model, x=np.float32([1, 2]), c=np.array(True))
    assert b"secret" not in ir.to_proto(result.model).SerializeToString()


def test_equal_nodes_become_one(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { a = Exp(x)  b = Exp(x)  y = Add(a, b) }"
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X)
    assert kinds(result.model) == ["Exp", "Add"]
    assert result.applied[0].what == "merged 1 node with an equal one"


def test_short_weights_are_compared_by_what_they_hold(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { a = Add(x, v)  b = Add(x, w)  y = Mul(a, b) }"
    equal = {name: np.float32([3, 4]) for name in ("v", "w")}
    assert kinds(apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text, **equal), x=X).model) == ["Add", "Mul"]
    for other in (np.float32([3, 5]), np.float32([3])):
        kept = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text, v=np.float32([3, 4]), w=other), x=X).model
        assert kinds(kept) == ["Add", "Add", "Mul"]


def test_weights_that_are_inputs_may_differ(make_model, kinds):
    text = "g (float[2] x, float[2] v, float[2] w) => (float[2] y) { a = Add(x, v)  b = Add(x, w)  y = Mul(a, b) }"
    model = make_model(text, v=np.float32([3, 4]), w=np.float32([3, 4])).ir
    assert kinds(EQUAL_SUBEXPRESSIONS.apply(model, PassContext()).model) == ["Add", "Add", "Mul"]


def test_different_attributes_are_not_equal(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { a = Elu <alpha = 1.0> (x)  b = Elu <alpha = 2.0> (x)  y = Add(a, b) }"
    assert kinds(apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X).model) == ["Elu", "Elu", "Add"]


def test_an_output_of_the_graph_keeps_its_name(make_model, apply_pass):
    text = "g (float[2] x) => (float[2] y, float[2] z) { a = Exp(x)  z = Exp(x)  y = Neg(a) }"
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X)
    assert [o.name for o in result.model.graph.outputs] == ["y", "z"]
    assert len(result.model.graph) == 2


def test_two_outputs_of_the_graph_stay_two(make_model, apply_pass, reasons):
    text = "g (float[2] x) => (float[2] y, float[2] z) { y = Exp(x)  z = Exp(x) }"
    assert "both results are outputs" in reasons(apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X))


def test_random_numbers_are_drawn_twice(make_model, kinds, reasons):
    text = """g (float[2] x) => (float[2] y) {
        a = RandomNormalLike(x)  b = RandomNormalLike(x)  y = Sub(a, b) }"""
    result = EQUAL_SUBEXPRESSIONS.apply(make_model(text).ir, PassContext())
    assert "random" in reasons(result)
    assert len(kinds(result.model)) == 3


def test_equal_subexpressions_inside_a_branch(make_model, apply_pass, kinds):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] s) { a = Exp(x)  b = Exp(x)  s = Add(a, b) },
                    else_branch = e () => (float[2] n) { n = Neg(x) }> }"""
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X, c=np.array(True))
    assert kinds(result.model).count("Exp") == 1


BRANCH = """g (bool c, float[2] x) => (float[2] y, float[2] z) {{
    {before} y = If (c) <then_branch = t () => (float[2] a) {{ r = Relu(x)  {then} }},
                         else_branch = e () => (float[2] b) {{ b = Neg(x) }}> {after} }}"""


def test_a_branch_uses_what_is_computed_before_it(make_model, apply_pass, kinds):
    text = BRANCH.format(before="z = Relu(x)", then="a = Exp(r)", after="")
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X[0], c=np.array(True))
    assert sorted(kinds(result.model)) == ["Exp", "If", "Neg", "Relu"]


def test_a_branch_cannot_use_what_is_computed_after_it(make_model, apply_pass, kinds):
    text = BRANCH.format(before="", then="a = Exp(r)", after="z = Relu(x)")
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X[0], c=np.array(True))
    assert kinds(result.model).count("Relu") == 2


def test_what_a_branch_returns_is_computed_in_it(make_model, apply_pass, kinds, reasons):
    text = BRANCH.format(before="z = Relu(x)", then="", after="").replace("r = Relu(x)", "a = Relu(x)")
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X[0], c=np.array(True))
    assert "a branch returns" in reasons(result)
    assert result.refused[0].nodes == ("Relu 'a'",)
    assert kinds(result.model).count("Relu") == 2
