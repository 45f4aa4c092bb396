"""Models that are valid and odd: each has a graph, and the window goes on."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from edgeopt_gui.pages.graph.page import ENTRY
from edgeopt_gui.pages.model.page import ENTRY as MODEL_ENTRY
from edgeopt_gui.subject import subject_at

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def value(name, shape=(1, 4), kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "odd", inputs, outputs, initializer=list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def passing_through():
    return model_of([helper.make_node("Identity", ["x"], ["y"])], [value("x")], [value("y")])


def without_inputs():
    node = helper.make_node("Constant", [], ["y"], value=constant("v", np.zeros((1, 4), np.float32)))
    return model_of([node], [], [value("y")])


def input_is_output():
    return model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x")], [value("x"), value("y")])


def long_names():
    name = "n" * 10_000
    return model_of([helper.make_node("Relu", ["x"], [name], name=name)], [value("x")], [value(name)])


def strange_names():
    nodes = [helper.make_node("Relu", ["x"], ["a/b//c"], name="//"), helper.make_node("Abs", ["a/b//c"], ["<y>&"])]
    return model_of(nodes, [value("x")], [value("<y>&")])


def nobody_reads_it():
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["unread"])]
    return model_of(nodes, [value("x")], [value("y")])


def branches():
    then = helper.make_graph([helper.make_node("Abs", ["x"], ["b"])], "then", [], [value("b")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [value("b")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="if")
    return model_of([node], [value("c", (), BOOL), value("x")], [value("y")])


def loop():
    body = helper.make_graph(
        [helper.make_node("Add", ["state", "state"], ["next"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [value("i", (), INT64), value("go", (), BOOL), value("state")],
        [value("on", (), BOOL), value("next")],
    )
    weights = [constant("n", np.int64(3)), constant("yes", np.bool_(True))]
    return model_of(
        [helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body, name="loop")],
        [value("x")],
        [value("y")],
        weights,
    )


def quantized():
    weights = [constant("scale", np.float32(0.1)), constant("zero", np.uint8(0))]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    return model_of(nodes, [value("x")], [value("y")], weights)


def one_node_without_a_name_reads_one_tensor_twice():
    return model_of([helper.make_node("Add", ["x", "x"], ["y"])], [value("x")], [value("y")])


MODELS = (
    passing_through,
    without_inputs,
    input_is_output,
    long_names,
    strange_names,
    nobody_reads_it,
    branches,
    loop,
    quantized,
    one_node_without_a_name_reads_one_tensor_twice,
)


def test_an_odd_model_has_a_graph(qtbot, tmp_path, context, open_window):
    window = open_window((MODEL_ENTRY, ENTRY))
    window.show_page("graph")
    page = window.page("graph")
    for make in MODELS:
        stem = tmp_path / make.__name__
        save(make(), stem.with_suffix(".onnx"))
        context.open(subject_at(stem.with_suffix(".onnx")))
        assert page.state == "busy", make
        qtbot.waitUntil(lambda: page.state != "busy")
        assert page.state == "content", make
        drawn = [node.position for node in context.nodes if node.operator != "Constant"]
        page.show_level("nodes")
        paths = {page.view.diagram.wiring.paths[at] for at in drawn}
        qtbot.waitUntil(lambda paths=paths: paths <= page.view.canvas.boxes.keys())
        page.view.canvas.grab()
        page.write_picture(stem.with_suffix(".svg"))
        page.write_picture(stem.with_suffix(".html"))
        assert stem.with_suffix(".html").stat().st_size > 10_000, make
