import resource
import time

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from edgeopt.errors import ModelError
from edgeopt.graph.analysis.onnx import analyze_onnx, peak_bytes
from edgeopt.graph.analysis.records import LARGEST, NodeRow, TensorFacts, WeightRow, largest, unknown_shapes
from edgeopt.graph.model import load

CONV = """g (float[batch, 3, 8, 8] x) => (float[batch, 4, 8, 8] y) {
    c = Conv<pads = [1, 1, 1, 1]>(x, w, b)  y = Relu(c) }"""


@pytest.fixture
def conv(write_model):
    path = write_model(CONV, w=np.ones((4, 3, 3, 3), np.float32), b=np.zeros(4, np.float32))
    return analyze_onnx(path)


def operators(analysis):
    return {(row.domain, row.operator): row.count for row in analysis.operators}


def test_sizes_and_names(conv, folder):
    assert (conv.kind, conv.format, conv.name) == ("model", "ONNX", "model.onnx")
    assert conv.size_bytes == (folder / "model.onnx").stat().st_size
    assert (conv.weights_bytes, conv.parameters, conv.weights_count) == (4 * 112, 112, 2)
    assert (conv.opsets, conv.ir_version, conv.nodes_count) == ({"": 17}, 8, 2)
    assert conv.digest == load(folder / "model.onnx").digest
    assert conv.warnings == ()


def test_each_weight_counts_in_one_row_of_the_operators(write_model):
    """One that is cut into parts, and one whose shape alone is read besides."""
    text = """g (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y, int64[4] s, float[2] t) {
        s = Shape(w)  c = Conv<pads = [1, 1, 1, 1]>(x, w)  y = Relu(c)
        k = Constant<value = float[4] {1, 2, 3, 4}>()
        a = Slice(k, zero, two)  b = Slice(k, two, four)  t = Add(a, b) }"""
    places = {name: np.array([at], np.int64) for name, at in (("zero", 0), ("two", 2), ("four", 4))}
    found = analyze_onnx(write_model(text, w=np.ones((4, 3, 3, 3), np.float32), **places))
    rows = {row.operator: row.weights_bytes for row in found.operators}
    assert rows == {"Shape": 0, "Conv": 432, "Relu": 0, "Constant": 0, "Slice": 16 + 3 * 8, "Add": 0}
    assert sum(rows.values()) == found.weights_bytes


def test_inputs_and_outputs_with_open_dimensions(conv):
    assert conv.inputs == (TensorFacts("x", "float32", ("batch", 3, 8, 8)),)
    assert conv.outputs == (TensorFacts("y", "float32", ("batch", 4, 8, 8)),)


def test_nodes_know_the_shapes_between_them_and_the_weights_that_they_read(conv):
    first, second = conv.nodes
    assert [t.shape for t in first.inputs] == [("batch", 3, 8, 8), (4, 3, 3, 3), (4,)]
    assert first.outputs == (TensorFacts("c", "float32", ("batch", 4, 8, 8)),)
    assert second.inputs == first.outputs
    assert (first.weights_bytes, first.parameters, second.weights_bytes) == (448, 112, 0)
    assert [row.position for row in conv.nodes] == [0, 1]


def test_the_largest_weights(conv):
    assert [(w.name, w.dtype, w.shape, w.size_bytes) for w in conv.weights] == [
        ("w", "float32", (4, 3, 3, 3), 432),
        ("b", "float32", (4,), 16),
    ]


def test_weights_in_constant_nodes_count(write_model):
    found = analyze_onnx(
        write_model("g (float[3] x) => (float[3] y) { k = Constant<value = float[3] {1, 2, 3}>()  y = Add(x, k) }")
    )
    assert (found.weights_bytes, found.parameters) == (12, 3)
    assert [(row.operator, row.weights_bytes) for row in found.nodes] == [("Constant", 12), ("Add", 12)]


def test_subgraphs_are_told_with_the_node_that_holds_them(write_model):
    text = """g (bool c, float[2] x) => (float[2] y) { y = If (c) <
        then_branch = t () => (float[2] a) { a = Relu(x) },
        else_branch = e () => (float[2] b) { k = Constant<value = float[2] {1, 2}>()  b = Add(x, k) } > }"""
    found = analyze_onnx(write_model(text))
    assert [row.inside for row in found.nodes] == ["", "If/then_branch", "If/else_branch", "If/else_branch"]
    assert operators(found) == {("", "If"): 1, ("", "Relu"): 1, ("", "Add"): 1, ("", "Constant"): 1}
    assert found.weights_bytes == 8


def test_functions_and_other_domains(write_model):
    functions = '<domain: "own", opset_import: ["" : 17]> double (x) => (y) { y = Add(x, x) }'
    found = analyze_onnx(write_model("g (float[2] x) => (float[2] y) { y = own.double(x) }", functions=functions))
    assert found.functions_count == 1
    assert operators(found) == {("own", "double"): 1}
    assert any("domain 'own'" in warning for warning in found.warnings)
    assert found.opsets == {"": 17, "own": 1}


def test_an_operator_that_nobody_knows_leaves_shapes_unknown(folder):
    graph = helper.make_graph(
        [helper.make_node("Thing", ["x"], ["a"], domain="far.away"), helper.make_node("Relu", ["a"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [2])],
        [helper.make_tensor_value_info("y", 1, [2])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("far.away", 7)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    found = analyze_onnx(folder / "m.onnx")
    assert found.nodes[0].outputs == (TensorFacts("a", None, None),)
    assert any("1 of 2 intermediate" in warning for warning in found.warnings)


def test_weights_that_are_listed_as_inputs_are_weights_and_a_warning(folder):
    proto = onnx.parser.parse_model(f'<ir_version: 3, opset_import: ["" : 8]> {CONV}')
    for name, shape in (("w", (4, 3, 3, 3)), ("b", (4,))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), name))
        proto.graph.input.append(helper.make_tensor_value_info(name, 1, shape))
    onnx.save(proto, folder / "old.onnx")
    found = analyze_onnx(folder / "old.onnx")
    assert [tensor.name for tensor in found.inputs] == ["x"]
    assert any("2 weights are listed as inputs" in warning for warning in found.warnings)


def test_external_files_are_told_with_their_sizes(external_model):
    found = analyze_onnx(external_model)
    assert [(file.name, file.size_bytes) for file in found.external_files] == [("weights.bin", 1600)]
    assert found.size_bytes == external_model.stat().st_size + 1600
    assert found.weights[0].file == "weights.bin"


def test_twins_are_a_warning(write_model):
    same = np.random.default_rng(0).random((32, 32)).astype(np.float32)
    text = "g (float[32, 32] x) => (float[32, 32] y) { m = MatMul(x, a)  y = MatMul(m, b) }"
    found = analyze_onnx(write_model(text, a=same, b=same))
    assert any("4,096 bytes of weights are duplicates" in warning for warning in found.warnings)


def test_odd_types(write_model):
    found = analyze_onnx(
        write_model("g (string[n] s, float16[1] h, bfloat16[1] b) => (string[n] t, seq(float16[1]) q) "
                    "{ t = Identity(s)  i = Identity(b)  q = SequenceConstruct(h) }")
    )  # fmt: skip
    assert [tensor.dtype for tensor in found.inputs] == ["str", "float16", "bfloat16"]
    assert [tensor.dtype for tensor in found.outputs] == ["str", "sequence"]


def test_texts_as_weights(write_model):
    found = analyze_onnx(
        write_model("g () => (string[2] y) { y = Identity(w) }", w=np.array(["ab", "cde"], object))
    )
    assert found.weights_bytes == 5
    assert any("no input" in warning for warning in found.warnings)


def test_what_is_no_model_gets_the_sentence_of_every_command(folder):
    (folder / "m.onnx").write_bytes(b"GGUF\x03\0\0\0" + b"\0" * 40)
    with pytest.raises(ModelError, match="GGUF") as raised:
        analyze_onnx(folder / "m.onnx")
    assert raised.value.hint


@pytest.mark.timing
@pytest.mark.parametrize("columns", [100_000, 500_000])
def test_ten_thousand_nodes_and_up_to_two_gigabytes_beside_them(folder, columns):
    """The file is sparse, and only read to be digested; the weights are never in memory."""
    nodes = [helper.make_node("Relu", [f"v{k}"], [f"v{k + 1}"]) for k in range(10_000)]
    nodes.append(helper.make_node("Add", ["v10000", "w"], ["y"]))
    shape = [1000, columns]
    size_bytes = 4 * 1000 * columns
    weight = TensorProto(name="w", dims=shape, data_type=1, data_location=1)
    weight.external_data.add(key="location", value="w.data")
    with (folder / "w.data").open("wb") as file:
        file.truncate(size_bytes)
    ports = [[helper.make_tensor_value_info(n, 1, shape)] for n in ("v0", "y")]
    graph = helper.make_graph(nodes, "g", *ports, [weight])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.monotonic()
    found = analyze_onnx(folder / "m.onnx")
    assert time.monotonic() - begin < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
    assert (found.nodes_count, found.weights_bytes) == (10_001, size_bytes)


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
        maximum, node = peak_bytes(graph, sizes(graph))
        return maximum / 4, node and node.outputs[0].name

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
    maximum, node = peak(text)
    # the condition (a byte), the input, a and z; inside two more and the result that a branch keeps
    assert (maximum, node) == (0.25 + 30 + 20, "z")


def test_weights_do_not_count(peak):
    text = "g (float[10] x) => (float[10] y) { k = Constant<value = float[2] {1, 2}>()  y = Add(x, w) }"
    assert peak(text, w=np.zeros(10, np.float32)) == (20, "y")


def test_a_graph_without_nodes():
    assert peak_bytes(ir.Graph([], [], nodes=[], opset_imports={"": 17}), {}) == (0, None)


def node(operator, domain="", weights_bytes=0, shape=(1,)):
    return NodeRow(0, "", operator, domain, (), (TensorFacts("y", "float32", shape),), weights_bytes, 0)


def test_the_largest_weights_lead_and_the_list_ends():
    weights = [WeightRow(f"w{k}", "float32", (k,), 4 * k, k) for k in range(LARGEST + 5)]
    assert [row.name for row in largest(weights)[:2]] == [f"w{LARGEST + 4}", f"w{LARGEST + 3}"]
    assert len(largest(weights)) == LARGEST


def test_unknown_shapes_are_counted():
    assert unknown_shapes([node("Add")]) is None
    assert "1 of 2 intermediate" in unknown_shapes([node("Add"), node("NonZero", shape=None)])
