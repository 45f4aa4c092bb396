from edgeopt.graph.structure import fault, keep_declared_shapes, signature

CHAIN = "g (float[B,2] x) => (float[B,2] y) { a = Relu(x)  y = Neg(a) }"


def test_a_graph_that_was_left_alone_has_no_fault(make_model):
    model = make_model(CHAIN).ir
    assert fault(model, signature(model)) is None


def test_renamed_outputs_are_a_fault(make_model):
    model = make_model(CHAIN).ir
    before = signature(model)
    model.graph.outputs[0].name = "other"
    assert fault(model, before) == "it changed the outputs from y to other"


def test_another_type_is_a_fault(make_model):
    import onnx_ir as ir

    model = make_model(CHAIN).ir
    before = signature(model)
    model.graph.outputs[0].type = ir.TensorType(ir.DataType.FLOAT16)
    assert "it changed the output 'y' from FLOAT to FLOAT16" in fault(model, before)


def test_a_node_that_reads_nothing_is_a_fault(make_model):
    model = make_model(CHAIN).ir
    before = signature(model)
    model.graph[0].replace_input_with(0, None)
    assert "it left an invalid graph" in fault(model, before)


def test_declared_shapes_come_back(make_model):
    model = make_model(CHAIN).ir
    copy = model.clone()
    copy.graph.outputs[0].shape = None
    keep_declared_shapes(model, copy)
    assert [str(dim) for dim in copy.graph.outputs[0].shape] == ["B", "2"]


def test_big_weights_are_left_where_they_are(make_model):
    import numpy as np

    model = make_model("g (float[600] x) => (float[600] y) { y = Add(x, w) }", w=np.ones(600, np.float32)).ir
    weight = model.graph.initializers["w"].const_value
    assert fault(model, signature(model)) is None
    assert model.graph.initializers["w"].const_value is weight


def test_names_that_are_there_twice_are_a_fault(make_model):
    model = make_model(CHAIN).ir
    before = signature(model)
    model.graph[0].outputs[0].name = "y"
    assert "it left an invalid graph" in fault(model, before)
