import onnx.parser

from edgeopt.graph.order import disorder

HEADER = '<ir_version: 8, opset_import: ["" : 17]> '


def why(text):
    return disorder(onnx.parser.parse_model(HEADER + text).graph)


def test_a_sorted_graph_is_in_order():
    assert why("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }") is None


def test_a_branch_may_read_what_came_before_it():
    text = """g (bool c, float[2] x) => (float[2] y) {{ {}
        y = If (c) <then_branch = t () => (float[2] p) {{ p = Relu(r) }},
                    else_branch = e () => (float[2] q) {{ q = Neg(r) }}> {} }}"""
    assert why(text.format("r = Exp(x)", "")) is None
    assert "reads 'r' in Relu" in why(text.format("", "r = Exp(x)"))


def test_an_output_that_nobody_computes():
    assert "promises the output 'y'" in why("g (float[2] x) => (float[2] y) { a = Relu(x) }")


def test_a_cycle_through_several_nodes_names_where_it_closes():
    text = "g (float[2] x) => (float[2] y) { a = Add(x, c)  b = Neg(a)  c = Exp(b)  y = Relu(c) }"
    assert "has a cycle: Add 'a' needs 'c'" in why(text)
