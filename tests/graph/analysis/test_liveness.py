import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.analysis.onnx import peak_bytes


def sizes(graph):
    """float32 of the shapes that stand in the graph, those in subgraphs too."""
    found = {}
    for each in (graph, *graph.subgraphs()):
        for value in (*each.inputs, *(output for node in each for output in node.outputs)):
            if value.shape is not None and value.dtype is not None:
                found[value] = int(np.prod([int(d) for d in value.shape])) * value.dtype.itemsize
    return found


@pytest.fixture
def peak(make_model, shaped):
    def of(text, **weights):
        graph = shaped(make_model(text, **weights)).ir.graph
        most, node = peak_bytes(graph, sizes(graph))
        return most / 4, node and node.outputs[0].name

    return of


def test_a_chain_holds_its_input_and_two_results(peak):
    assert peak("g (float[10] x) => (float[10] y) { a = Sin(x)  b = Sin(a)  y = Sin(b) }") == (30, "b")


def test_what_is_needed_later_stays(peak):
    text = """g (float[10] x) => (float[10] y) {
        a = Sin(x)  b = Concat<axis = 0>(a, a)  c = Sin(b)  d = Slice(c, zero, ten)  y = Add(d, a) }"""
    # the input, a, and two of twenty
    assert peak(text, zero=np.array([0]), ten=np.array([10])) == (60, "c")


def test_another_order_takes_less(peak):
    wide = [f"{a} = Concat<axis = 0>(x, x, x, x)" for a in "vw"]
    narrow = [f"{b} = ReduceMax<keepdims = 1>({a})" for a, b in ("vm", "wn")]

    def of(*nodes):
        return peak(f"g (float[10] x) => (float[1] y) {{ {'  '.join(nodes)}  y = Add(m, n) }}")

    assert of(wide[0], narrow[0], wide[1], narrow[1]) == (52, "n")
    assert of(*wide, *narrow) == (91, "m")


def test_another_shape_takes_no_room(peak):
    text = "g (float[10] x) => (float[2, 5] y) { a = Sin(x)  r = Reshape(a, s)  y = Cos(r) }"
    assert peak(text, s=np.array([2, 5])) == (30, "y")


def test_the_peak_of_a_branch_comes_on_top_of_what_is_alive(peak):
    text = """g (bool c, float[10] x) => (float[10] y) { a = Sin(x)  z = If (c) <
        then_branch = t () => (float[10] p) { q = Sin(a)  o = Sin(q)  p = Sin(o) },
        else_branch = e () => (float[10] r) { r = Identity(a) } >  y = Add(z, x) }"""
    most, node = peak(text)
    # the condition (a byte), the input, a and z; inside two more and the result that a branch keeps
    assert (most, node) == (0.25 + 30 + 20, "z")


def test_weights_do_not_count(peak):
    text = "g (float[10] x) => (float[10] y) { k = Constant<value = float[2] {1, 2}>()  y = Add(x, w) }"
    assert peak(text, w=np.zeros(10, np.float32)) == (20, "y")


def test_a_graph_without_nodes():
    assert peak_bytes(ir.Graph([], [], nodes=[], opset_imports={"": 17}), {}) == (0, None)
