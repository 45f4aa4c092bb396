"""A copy serves the next pass only if it is what it was."""

import onnx_ir as ir
import pytest

from edgeopt.graph.copies import Copies

TEXT = """g (float[2,2] x, bool b) => (float[2,2] y) {
    a = Mul(x, two)  c = Elu <alpha = 0.5> (a)
    d = If(b) <then_branch = t () => (float[2,2] u) { u = Relu(c) },
               else_branch = e () => (float[2,2] v) { v = Abs(c) }>
    y = Exp(d) }"""


@pytest.fixture
def model(make_model):
    return make_model(TEXT, two=[2.0]).ir


def node(model, kind):
    return next(each for each in model.graph.all_nodes() if each.op_type == kind)


def test_what_was_left_as_it_was_is_handed_out_again(model):
    copies = Copies()
    first = copies.of(model)
    assert first is not model
    assert copies.of(model) is first


def test_another_model_has_its_own(model):
    copies = Copies()
    assert copies.of(model) is not copies.of(model.clone())


def retype(model):
    model.graph.inputs[0].type = ir.TensorType(ir.DataType.FLOAT16)


def replaced_by_an_equal_one(model):
    old = node(model, "Exp")
    new = ir.node("Exp", old.inputs, name=old.name)
    new.outputs[0].name = "other"
    model.graph.insert_after(old, new)
    old.outputs[0].replace_all_uses_with(new.outputs[0], replace_graph_outputs=True)
    model.graph.remove(old, safe=True)


CHANGES = {
    "an operator": lambda model: setattr(node(model, "Relu"), "op_type", "Neg"),
    "a node's name": lambda model: setattr(node(model, "Exp"), "name", "other"),
    "an input": lambda model: node(model, "Exp").replace_input_with(0, node(model, "Elu").outputs[0]),
    "an attribute": lambda model: node(model, "Elu").attributes.add(ir.AttrFloat32("alpha", 0.25)),
    "a weight": lambda model: setattr(
        model.graph.initializers["two"], "const_value", ir.tensor([3.0], dtype=ir.DataType.FLOAT, name="two")
    ),
    "no weight": lambda model: model.graph.initializers.pop("two"),
    "a value's name": lambda model: setattr(node(model, "Elu").outputs[0], "name", "other"),
    "a value's shape": lambda model: setattr(node(model, "Elu").outputs[0], "shape", ir.Shape([2, 2])),
    "one dimension": lambda model: model.graph.inputs[0].shape.__setitem__(0, "n"),
    "a value's type": retype,
    "the output": lambda model: model.graph.outputs.__setitem__(0, node(model, "Elu").outputs[0]),
    "the opset": lambda model: model.graph.opset_imports.update({"": 19}),
    "a node's notes": lambda model: node(model, "Elu").meta.update(seen=True),
    "a value's notes": lambda model: node(model, "Elu").outputs[0].metadata_props.update(seen="yes"),
    "the model's notes": lambda model: model.metadata_props.update(seen="yes"),
    "a node": replaced_by_an_equal_one,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_in_silence_is_not(model, change):
    copies = Copies()
    first = copies.of(model)
    change(first)
    second = copies.of(model)
    assert second is not first
    assert copies.of(model) is second
