"""A layer as one of its forms would compute it, in floats: nodes for a copy of the model."""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.nodes import constant
from edgeopt.quant.forms.base import Form, FormContext
from edgeopt.quant.forms.smooth import division, multiplied
from edgeopt.quant.forms.writer import Writer
from edgeopt.quant.records import Layer

if TYPE_CHECKING:
    import onnx_ir as ir


class Fakes:
    """Makes such nodes for `target`, a copy of `model`; constants go into its initializers, equal ones once.

    Forms look around a layer (what reads it, which range is known), so they insert their nodes into a second copy
    that stays as the model is; from there the nodes are lifted.
    """

    def __init__(self, model: "ir.Model", target: "ir.Model", context: FormContext) -> None:
        from edgeopt.quant.layers import nodes_by_key

        self.context = context
        self._target = target.graph
        self._sketch = model.clone().graph
        self._nodes = nodes_by_key(self._sketch)
        self._own = frozenset(self._sketch)
        self._values = {value.name: value for value in _values(self._target)}
        self._weights: dict[str, list[ir.Value]] = {}
        self._count = 0

    def nodes(
        self, key: str, layer: Layer, form: Form, *, round_outputs: bool = True
    ) -> "tuple[list[ir.Node], tuple[ir.Value, ...]]":
        """Nodes that stand nowhere yet, and the values that take the place of the node's own outputs."""
        node = self._nodes[key]
        made: list[ir.Node] = []
        faked: dict[ir.Value, ir.Value] = {}
        inputs: list[ir.Value | None] = []
        for value in node.inputs:
            if value is None:
                inputs.append(None)
            elif layer.weight and value.name == layer.weight:
                inputs.append(self._weight(layer, form))
            elif value.name in layer.inputs:
                if value not in faked:
                    source = self._smoothed(node, value, layer, form)
                    result = form.fake_input(self._sketch, node, source, layer, self.context)
                    faked[value] = self._lifted(result, value, self._values[value.name], made)
                inputs.append(faked[value])
            else:
                inputs.append(self._values[value.name])
        product = twin(node, inputs)
        made.append(product)
        self._name(product)
        outputs = list(product.outputs)
        if form.fake_output is not None and round_outputs:
            value = node.outputs[0]
            result = form.fake_output(self._sketch, node, value, layer, self.context)
            outputs[0] = self._lifted(result, value, outputs[0], made)
        return made, tuple(outputs)

    def _smoothed(self, node: "ir.Node", value: "ir.Value", layer: Layer, form: Form) -> "ir.Value":
        how = self.context.smoothing.get(layer.name) if form.smooths else None
        if how is None:
            return value
        dividing = division(Writer(self._sketch, counted=True), value, how)
        self._sketch.insert_before(node, dividing)
        return dividing.outputs[0]

    def reads(self, value: "ir.Value") -> None:
        """From now on what is made reads this value under its name."""
        self._values[value.name] = value

    def _lifted(
        self, result: "ir.Value", source: "ir.Value", stand_in: "ir.Value", made: "list[ir.Node]"
    ) -> "ir.Value":
        """Copies of the nodes from `source` to `result`, which then leave the sketch again."""
        between = self._inserted(result)
        mapped = {source: stand_in}
        for node in between:
            inputs = [None if v is None else mapped[v] if v in mapped else self._outer(v) for v in node.inputs]
            copy = twin(node, inputs)
            self._name(copy)
            made.append(copy)
            mapped.update(zip(node.outputs, copy.outputs, strict=True))
        self._sketch.remove(between[::-1], safe=True)
        return mapped[result]

    def _inserted(self, result: "ir.Value") -> "list[ir.Node]":
        """The nodes that a form put before a value, in their order."""
        found: dict[ir.Node, None] = {}

        def visit(value: "ir.Value | None") -> None:
            node = value.producer() if value is not None else None
            if node is None or node in found or node in self._own:
                return
            for each in node.inputs:
                visit(each)
            found[node] = None

        visit(result)
        return list(found)

    def _outer(self, value: "ir.Value") -> "ir.Value":
        """What a node of a form reads besides: a constant of its own, or a value of the model."""
        import onnx_ir as ir

        known = self._values.get(value.name)
        if known is None:
            known = ir.Value(name=value.name, type=value.type, shape=value.shape, const_value=value.const_value)
            self._target.register_initializer(known)
            self._values[value.name] = known
        return known

    def _weight(self, layer: Layer, form: Form) -> "ir.Value":
        """The weights as the form can hold them; forms that round alike share them."""
        import onnx_ir as ir

        source = self.context.weights.get(layer.weight)
        if source is None:
            source = constant(self._values[layer.weight])
        assert source is not None  # noqa: S101 - layers have constant weights
        if form.smooths and layer.name in self.context.smoothing:
            source = multiplied(source, layer, self.context.smoothing[layer.name])
        array = np.ascontiguousarray(form.fake_weights(source, layer, self.context), np.float32)
        made = self._weights.setdefault(layer.name, [])
        for value in made:
            if np.array_equal(value.const_value.numpy(), array):
                return value
        self._count += 1
        value = ir.Value(name=f"{layer.weight}/{form.name}/{self._count}", const_value=ir.tensor(array))
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(array.shape)
        self._target.register_initializer(value)
        made.append(value)
        return value

    def _name(self, node: "ir.Node") -> None:
        """Names that no other value has: one in a branch must not hide one outside."""
        self._count += 1
        node.name = f"edgeopt/{self._count}"
        for place, value in enumerate(node.outputs):
            value.name = f"edgeopt/{self._count}/{place}"


def twin(node: "ir.Node", inputs: "list[ir.Value | None] | None" = None) -> "ir.Node":
    """The same node once more, with outputs of its own."""
    import onnx_ir as ir

    copy = ir.Node(
        node.domain,
        node.op_type,
        node.inputs if inputs is None else inputs,
        node.attributes.values(),
        num_outputs=len(node.outputs),
        version=node.version,
    )
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.type = old.type
    return copy


def _values(graph: "ir.Graph") -> "list[ir.Value]":
    return [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
