import onnx.parser

from edgeopt.graph.files.order import disorder, function_cycle, function_disorder, sort

HEADER = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> '


def parsed(text):
    return onnx.parser.parse_model(HEADER + text)


def why(text):
    return disorder(parsed(text).graph)


def order(graph):
    return [node.output[0] for node in graph.node]


def test_a_sorted_graph_is_in_order():
    assert why("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }") is None


def test_a_branch_may_read_what_came_before_it():
    text = """g (bool c, float[2] x) => (float[2] y) {{ {}
        y = If (c) <then_branch = t () => (float[2] p) {{ p = Relu(r) }},
                    else_branch = e () => (float[2] q) {{ q = Neg(r) }}> {} }}"""
    assert why(text.format("r = Exp(x)", "")) is None
    assert "reads 'r' in Relu" in why(text.format("", "r = Exp(x)"))


def test_an_output_that_nobody_computes():
    assert "declares the output 'y'" in why("g (float[2] x) => (float[2] y) { a = Relu(x) }")


def test_a_cycle_through_several_nodes_names_where_it_closes():
    text = "g (float[2] x) => (float[2] y) { a = Add(x, c)  b = Neg(a)  c = Exp(b)  y = Relu(c) }"
    assert "has a cycle: Add 'a' needs 'c'" in why(text)


def test_sorting_moves_only_what_must_wait():
    graph = parsed("g (float[2] x) => (float[2] y) { y = Add(b, c)  a = Relu(x)  c = Neg(a)  b = Exp(x) }").graph
    assert sort(graph)
    assert order(graph) == ["a", "c", "b", "y"]
    assert disorder(graph) is None
    assert not sort(graph)


def test_sorting_looks_at_what_branches_need_and_into_them():
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] p) { p = Relu(i)  i = Exp(r) },
                    else_branch = e () => (float[2] q) { q = Neg(r) }>
        r = Exp(x) }"""
    graph = parsed(text).graph
    assert sort(graph)
    assert order(graph) == ["r", "y"]
    assert disorder(graph) is None


def test_what_lies_behind_a_cycle_is_not_taken_for_it():
    text = "g (float[2] x) => (float[2] y) { y = Relu(b)  a = Add(x, b)  b = Neg(a) }"
    graph = parsed(text).graph
    assert not sort(graph)
    assert "has a cycle: Neg 'b' needs 'a'" in disorder(graph)


def test_a_node_that_needs_itself_is_a_cycle():
    assert "has a cycle: Add 'a' needs 'a'" in why("g (float[2] x) => (float[2] y) { a = Add(x, a) y = Neg(a) }")


def test_a_name_that_is_computed_twice():
    text = "g (float[2] x) => (float[2] y) { y = Relu(x)  y = Neg(x) }"
    assert why(text) == "computes 'y' twice, in Relu 'y' and in Neg 'y'"
    assert "already the name of an input or weight" in why("g (float[2] x) => (float[2] x) { x = Relu(x) }")


def test_a_weight_or_input_that_is_there_twice():
    graph = parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }").graph
    graph.initializer.extend([onnx.TensorProto(name="w"), onnx.TensorProto(name="w")])
    assert disorder(graph) == "contains the weight 'w' twice"
    assert "lists the input 'x' twice" in why("g (float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }")


MODEL = "g (float[2] x) => (float[2] y) { y = own.f(x) } "
FUNCTION = '<domain: "own", opset_import: ["" : 17, "own" : 1]> '


def test_functions_are_sorted_and_checked_too():
    (function,) = parsed(MODEL + FUNCTION + "f (u) => (v) { v = Neg(e)  e = Exp(u) }").functions
    assert sort(function)
    assert function_disorder(function) is None
    function.output[0] = "nobody"
    assert function_disorder(function) == "declares the output 'nobody', which no node computes"


def test_functions_that_call_each_other_in_a_circle():
    """onnx's shape inference would follow them until the stack is full."""
    both = FUNCTION + "f (u) => (v) { v = own.h(u) } " + FUNCTION + "h (u) => (v) { v = own.f(u) }"
    assert function_cycle(parsed(MODEL + both).functions) == "has a function that calls itself: 'f'"
    sound = FUNCTION + "f (u) => (v) { v = own.h(u) } " + FUNCTION + "h (u) => (v) { v = Neg(u) }"
    assert function_cycle(parsed(MODEL + sound).functions) is None
