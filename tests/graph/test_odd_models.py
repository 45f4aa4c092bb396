"""Models that are valid but odd: loaded, analyzed, simplified, and still what they were."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.model import load, save
from edgeopt.graph.pipeline import run_pipeline

FLOAT = TensorProto.FLOAT
THREE = np.array([1.5, -2.0, 3.0], np.float32)


def port(name, shape=(3,), kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, opset=17, **weights):
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "odd", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(kind, inputs, outputs, **more):
    return helper.make_node(kind, inputs.split(","), outputs.split(","), **more)


def empty_dimension():
    nodes = [node("Relu", "x", "r"), node("Concat", "r,w", "y", axis=0)]
    return model(nodes, [port("x", (0, 3))], [port("y", (1, 3))], w=THREE[None])


def empty_weight():
    nodes = [node("Concat", "x,none", "joined", axis=0), node("Neg", "joined", "y")]
    return model(nodes, [port("x")], [port("y")], none=np.zeros(0, np.float32))


def scalars():
    nodes = [node("Mul", "x,two", "m"), node("ReduceSum", "m", "s", keepdims=0), node("Add", "s,two", "y")]
    return model(nodes, [port("x", ())], [port("y", ())], two=np.float32(2))


def output_is_input():
    return model([node("Neg", "x", "y")], [port("x")], [port("y"), port("x")])


def output_is_input_by_identity():
    return model([node("Identity", "x", "y"), node("Identity", "y", "z")], [port("x")], [port("y"), port("z")])


def output_is_weight():
    return model([node("Neg", "x", "y")], [port("x")], [port("y"), port("w")], w=THREE)


def output_is_known():
    return model(
        [node("Add", "w,w", "two"), node("Neg", "x", "y")], [port("x")], [port("y"), port("two")], w=THREE
    )


def two_names_for_one_result():
    nodes = [node("Neg", "x", "a"), node("Neg", "x", "b"), node("Identity", "a", "c")]
    return model(nodes, [port("x")], [port("a"), port("b"), port("c")])


def output_used_inside():
    nodes = [node("Neg", "x", "a"), node("Identity", "a", "b"), node("Neg", "b", "c"), node("Relu", "c", "d")]
    return model(nodes, [port("x")], [port("b"), port("d")])


def unnamed_nodes():
    return model([node("Neg", "x", "a"), node("Exp", "a", "b"), node("Add", "b,x", "y")], [port("x")], [port("y")])


def left_out_operands():
    nodes = [node("Clip", "x,,two", "c"), node("Unsqueeze", "c,axes", "u"), node("Resize", "u,,scales", "y")]
    scales = np.array([1, 2], np.float32)
    return model(nodes, [port("x")], [port("y", (1, 6))], two=np.float32(2), axes=np.array([0]), scales=scales)


def left_out_results():
    weights = {"w": np.full((1, 8, 3), 0.1, np.float32), "r": np.full((1, 8, 2), 0.1, np.float32)}
    lstm = node("LSTM", "x,w,r", ",,y", hidden_size=2)
    return model([lstm], [port("x", (4, 1, 3))], [port("y", (1, 1, 2))], **weights)


def branch(result, nodes, shape=(3,), **weights):
    arrays = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    return helper.make_graph(nodes, "branch", [], [port(result, shape)], arrays)


def outer_values_in_branches():
    """Both branches use the same names inside, read values and weights from outside, one has its own weight."""
    inner = branch("deep", [node("Add", "hidden,w", "deep")])
    nested = node("If", "flag", "v", then_branch=inner, else_branch=branch("deep", [node("Neg", "x", "deep")]))
    branches = {
        "then_branch": branch("out", [nested, node("Mul", "v,own", "out")], own=THREE),
        "else_branch": branch("out", [node("Identity", "hidden", "v"), node("Add", "v,w", "out")]),
    }
    nodes = [node("Exp", "x", "hidden"), node("If", "flag", "y", **branches)]
    return model(nodes, [port("x"), port("flag", (), TensorProto.BOOL)], [port("y")], w=THREE)


def weight_only_in_a_loop():
    body = helper.make_graph(
        [node("Add", "state,step", "next"), node("Identity", "go", "on"), node("Mul", "next,x", "row")],
        "body",
        [port("turn", (), TensorProto.INT64), port("go", (), TensorProto.BOOL), port("state")],
        [port("on", (), TensorProto.BOOL), port("next"), port("row")],
    )
    loop = node("Loop", "count,,x", "last,rows", body=body)
    weights = {"count": np.array(3), "step": THREE}
    return model([loop], [port("x")], [port("last"), port("rows", (3, 3))], **weights)


def strange_names():
    nodes = [
        node("Neg", "an input/0:1", "größe 🙂", name="a node; with = signs"),
        node("Add", "größe 🙂,w \" ' \\", "y\tz", name="日本"),
    ]
    return model(nodes, [port("an input/0:1")], [port("y\tz")], **{"w \" ' \\": THREE})


def names_that_a_pass_may_choose():
    nodes = [
        node("Conv", "x,w", "y_folded"),
        node("Mul", "y_folded,w_1", "y_bias"),
        node("Add", "y_bias,w_2", "y"),
    ]
    weights = {"w": np.ones((1, 1, 2), np.float32), "w_1": np.float32(2), "w_2": np.full((1, 1, 1), 3, np.float32)}
    return model(nodes, [port("x", (1, 1, 3))], [port("y", (1, 1, 2))], **weights)


def whole_numbers():
    nodes = [node("Div", "x,two", "d"), node("Mul", "d,two", "m"), node("Sub", "m,two", "y")]
    ports = [[port(name, (3,), TensorProto.INT64)] for name in "xy"]
    return model(nodes, *ports, two=np.array(2))


def open_rank():
    """Neither the input nor the output says how many dimensions it has."""
    ports = [[helper.make_tensor_value_info(name, FLOAT, None)] for name in "xy"]
    return model([node("Neg", "x", "n"), node("Transpose", "n", "y")], *ports)


def no_input():
    return model([node("Add", "w,w", "y")], [], [port("y")], w=THREE)


def texts():
    nodes = [node("Equal", "x,word", "same"), node("Not", "same", "y")]
    ports = [port("x", (2,), TensorProto.STRING)], [port("y", (2,), TensorProto.BOOL)]
    return model(nodes, *ports, opset=19, word=np.array(["a b"], object))


ODD = (
    empty_dimension,
    empty_weight,
    scalars,
    output_is_input,
    output_is_input_by_identity,
    output_is_weight,
    output_is_known,
    two_names_for_one_result,
    output_used_inside,
    unnamed_nodes,
    left_out_operands,
    left_out_results,
    outer_values_in_branches,
    weight_only_in_a_loop,
    strange_names,
    names_that_a_pass_may_choose,
    whole_numbers,
    open_rank,
    no_input,
    texts,
)


def feeds(proto):
    random, values = np.random.default_rng(1), {}
    for value in proto.graph.input:
        tensor = value.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim] if tensor.HasField("shape") else [2, 3]
        kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if tensor.elem_type == TensorProto.STRING:
            values[value.name] = np.array(["a b", "c"], object)
        else:
            values[value.name] = np.asarray(random.uniform(-9, 9, shape)).astype(kind)
    return values


def results(path, values):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, values), strict=True))


@pytest.mark.parametrize("build", ODD, ids=[build.__name__ for build in ODD])
def test_an_odd_model_is_read_analyzed_and_simplified(tmp_path: Path, build):
    proto, source, simplified = build(), tmp_path / "odd.onnx", tmp_path / "simplified.onnx"
    onnx.save(proto, source)
    analysis = analyze_onnx(source)
    assert analysis.nodes_count >= len(proto.graph.node)
    assert [value.name for value in analysis.outputs] == [value.name for value in proto.graph.output]
    result = run_pipeline(load(source))
    assert [entry for entry in result.ledger if entry.rolled_back] == []
    save(result.model_ir, simplified)
    wanted, got = (results(path, feeds(proto)) for path in (source, simplified))
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array)
        assert got[name].dtype == array.dtype


def test_two_nodes_of_one_name_run_once_they_are_simplified(tmp_path: Path):
    """ONNX Runtime refuses such a model, so its results are worked out here."""
    nodes = [node("Neg", "x", "a", name="same"), node("Exp", "a", "y", name="same")]
    onnx.save(model(nodes, [port("x")], [port("y")]), tmp_path / "odd.onnx")
    save(run_pipeline(load(tmp_path / "odd.onnx")).model_ir, tmp_path / "simplified.onnx")
    np.testing.assert_allclose(results(tmp_path / "simplified.onnx", {"x": THREE})["y"], np.exp(-THREE), rtol=1e-6)
