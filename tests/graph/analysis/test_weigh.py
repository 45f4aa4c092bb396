"""Branches, loops, functions, and shapes that follow from arithmetic."""

import numpy as np
import onnx
import pytest

from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.records import AnalysisOptions


def costs(analysis):
    return {node.operator: (node.cost.operations, node.runs) for node in analysis.nodes}


BRANCHES = """g (bool c, float[8] x) => (float[8] y) {{ {setup} y = If ({condition}) <
    then_branch = t () => (float[8] a) {{ a = Relu(x) }},
    else_branch = e () => (float[8] b) {{ s = Sin(x)  b = Cos(s) }} > }}"""


def test_of_an_if_the_dearer_branch_counts(write_model):
    found = analyze_onnx(write_model(BRANCHES.format(setup="", condition="c")))
    assert costs(found) == {"If": (16, 1), "Relu": (8, 0), "Sin": (8, 1), "Cos": (8, 1)}
    assert (found.work.operations, found.work.unknown) == (16, 0)


def test_of_an_if_with_a_constant_condition_the_branch_that_is_taken(write_model):
    setup = "k = Constant<value = bool {1}>()"
    found = analyze_onnx(write_model(BRANCHES.format(setup=setup, condition="k")))
    assert costs(found)["If"] == (8, 1)
    assert found.work.operations == 8


def test_a_condition_on_shapes_is_constant_too(write_model):
    setup = """h = Shape(x)  eight = Constant<value = int64[1] {8}>()  e = Equal(h, eight)  k = Squeeze(e)"""
    found = analyze_onnx(write_model(BRANCHES.format(setup=setup, condition="k")))
    assert costs(found)["Relu"] == (8, 1)
    assert costs(found)["Cos"] == (8, 0)


LOOP = """g ({inputs} float[4] x) => (float[4] y) {{
    {setup} t = Constant<value = bool {{1}}>()
    y = Loop (n, t, x) <body = step (int64 i, bool go, float[4] a) => (bool on, float[4] b) {{
        on = {condition}  b = Sin(a) }}> }}"""


def test_a_loop_of_constant_length_counts_its_body_so_often(write_model):
    setup = "n = Constant<value = int64 {7}>()"
    found = analyze_onnx(write_model(LOOP.format(inputs="", setup=setup, condition="Identity(go)")))
    assert costs(found)["Sin"] == (4, 7)
    assert costs(found)["Loop"] == (28, 1)
    assert (found.work.operations, found.work.unknown) == (28, 0)


@pytest.mark.parametrize(
    ("inputs", "setup", "condition"),
    [
        ("int64 n,", "", "Identity(go)"),
        # it may stop early
        ("", "n = Constant<value = int64 {7}>()", "Less(i, i)"),
    ],
)
def test_a_loop_of_unknown_length_counts_once_and_says_so(write_model, inputs, setup, condition):
    found = analyze_onnx(write_model(LOOP.format(inputs=inputs, setup=setup, condition=condition)))
    loop = next(node for node in found.nodes if node.operator == "Loop")
    assert "known only at run time" in loop.cost.unknown
    assert found.work.unknown == 1
    assert found.work.operations in {4, 5}
    assert found.work.unknown_reasons[0].startswith("Loop 'y': the number of iterations")


@pytest.mark.parametrize("operator", ["own.twice", "Sin"])
def test_what_holds_a_node_of_unknown_cost_says_that_it_is_within(write_model, operator):
    """However deep it lies, that is said once."""
    functions = """<domain: "own", opset_import: ["" : 17]> twice (x) => (y) { a = Sin(x)  y = Cos(a) }"""
    text = f"""g (bool c, float[n] x, int64[1] s) => (float[m] y) {{ p = Expand(x, s)  y = If (c) <
        then_branch = t () => (float[k] a) {{ a = {operator}(p) }},
        else_branch = e () => (float[j] b) {{ b = {operator}(p) }} > }}"""
    analysis = analyze_onnx(write_model(text, functions=functions))
    holder = next(node for node in analysis.nodes if node.operator == "If")
    assert holder.cost.unknown_within
    assert holder.cost.unknown.startswith("within: the shape of '")
    assert holder.cost.unknown_kind == "within: the shape of a tensor is known only at run time"


def test_a_scan_counts_its_body_for_each_step(write_model):
    text = """g (float[3] s, float[n, 3] x) => (float[3] f, float[n, 3] y) {
        f, y = Scan <num_scan_inputs = 1, body = step (float[3] a, float[3] b) => (float[3] c, float[3] d) {
            c = Add(a, b)  d = Identity(c) }> (s, x) }"""
    found = analyze_onnx(write_model(text), AnalysisOptions(shapes={"x": (9, 3)}))
    assert costs(found)["Add"] == (3, 9)
    assert found.work.operations == 27


def test_a_function_costs_what_its_body_costs_with_the_shapes_of_the_call(write_model):
    functions = """<domain: "own", opset_import: ["" : 17]>
        twice <axis> (x) => (y) { s = ReduceSum<keepdims = 1>(x)  a = Mul(x, s)
            y = Concat<axis: int = @axis>(a, x) }"""
    found = analyze_onnx(
        write_model("g (float[2, 5] x) => (float[2, 10] y) { y = own.twice<axis = 1>(x) }", functions=functions)
    )
    (node,) = found.nodes
    assert node.cost.operations == 20
    assert node.cost.written_bytes == 4 * (1 + 10 + 20)
    assert found.work.unknown == 0


def test_a_node_that_nobody_knows_is_in_no_sum_and_named(folder):
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node("Thing", ["x"], ["a"], "first", domain="far.away"),
            helper.make_node("Relu", ["a"], ["b"], "second"),
            helper.make_node("Relu", ["x"], ["c"], "third"),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, [2])],
        [helper.make_tensor_value_info(name, 1, [2]) for name in ("b", "c")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("far.away", 7)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    found = analyze_onnx(folder / "m.onnx")
    assert (found.work.operations, found.work.unknown) == (2, 2)
    assert found.work.unknown_reasons[0].startswith("Thing 'first': the cost of Thing of the domain 'far.away'")
    assert {row.category: row.unknown for row in found.categories} == {"unknown": 1, "activation": 1}


def test_the_shapes_of_a_run_win_over_what_follows_from_the_file(write_model):
    text = "g (float[n] x, int64[1] s) => (float[a, b] y) { r = Expand(x, s)  y = Sin(r) }"
    path = write_model(text)
    assert analyze_onnx(path).work.unknown == 2
    found = analyze_onnx(path, AnalysisOptions(real={"x": (6,), "s": (1,), "r": (6,), "y": (6,)}))
    assert (found.work.operations, found.work.unknown) == (6, 0)
    assert found.work.shapes == ("n = 6 (as in the run)",)


def test_the_operators_of_onnx_runtime_are_known(folder):
    helper = onnx.helper
    near = {"domain": "com.microsoft"}
    weight = onnx.numpy_helper.from_array(np.ones((8, 24), np.float32), "w")
    scale = onnx.numpy_helper.from_array(np.ones(8, np.float32), "g")
    nodes = [
        helper.make_node("Attention", ["x", "w", ""], ["a"], num_heads=2, **near),
        helper.make_node("SkipLayerNormalization", ["a", "x", "g"], ["n"], **near),
        helper.make_node("FusedMatMul", ["n", "w"], ["m"], **near),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    ports = [[helper.make_tensor_value_info(name, 1, shape)] for name, shape in (("x", [1, 5, 8]), ("y", None))]
    graph = helper.make_graph(nodes, "g", *ports, [weight, scale])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    found = analyze_onnx(folder / "m.onnx")
    assert found.work.unknown == 0
    assert found.work.macs == 5 * 8 * 24 + 2 * 5 * 5 * 8 + 5 * 8 * 24
    assert costs(found)["Relu"] == (5 * 24, 1)


def test_shapes_follow_from_arithmetic_that_inference_does_not_follow(write_model):
    text = """g (float[n, 6] x) => (float[a, b] y) {
        s = Shape(x)  two = Constant<value = int64[1] {2}>()  half = Div(s, two)
        zero = Constant<value = float {0}>()  filled = Expand(zero, half)  y = Sin(filled) }"""
    found = analyze_onnx(write_model(text), AnalysisOptions(shapes={"x": (8, 6)}))
    assert found.work.unknown == 0
    assert costs(found)["Sin"][0] == 4 * 3
    assert [(row.name, row.size) for row in found.dimensions][:1] == [("n", 8)]


def test_sizes_that_a_file_claims_give_way_to_those_that_were_asked_for(write_model):
    path = write_model("g (float[n, 6] x) => (float[m, 6] y) { a = Sin(x)  y = Cos(a) }")
    proto = onnx.load(path)
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("a", 1, [1, 6]))
    onnx.save(proto, path)
    found = analyze_onnx(path, AnalysisOptions(shapes={"x": (5, 6)}))
    assert [node.cost.operations for node in found.nodes] == [30, 30]
