"""Writes graphs the way the exporter of PyTorch does: scoped names, Constant nodes, shapes asked at run time."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INT64 = TensorProto.INT64
Operand = str | float | list[int] | np.ndarray


class Exporter:
    """Collects nodes and seeded weights; every method returns the names of the values it made."""

    def __init__(self, opset: int = 14, seed: int = 0) -> None:
        self.opset = opset
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int, scale: float | None = None, around: float = 0.0) -> str:
        """A random weight, scaled so that activations keep their size."""
        scale = scale if scale is not None else 1 / np.sqrt(shape[0])
        return self.array(self.random.standard_normal(shape) * scale + around)

    def array(self, array: Any) -> str:
        """A weight with these values; float64 becomes float32, as everything here."""
        array = np.asarray(array)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        name = f"onnx::Weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: Operand, outputs: int = 1, **attributes: Any) -> Any:
        """A node; numbers and lists among its inputs become Constant nodes."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        stem = f"/model/{kind}_{len(self.nodes)}"
        results = [f"{stem}_output_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, results, stem, **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, value: Operand) -> str:
        """A Constant node: whole numbers in lists are shapes and axes, all others are float32."""
        integers = isinstance(value, list | int)
        array = np.array(value, np.int64) if integers else np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        return self.op("Constant", value=numpy_helper.from_array(array))

    # What a later opset moved from an attribute to an input.

    def axes_op(self, kind: str, x: str, axes: list[int], since: int = 13, **attributes: Any) -> str:
        """Squeeze, Unsqueeze or a reduction, with its axes where this opset wants them."""
        if self.opset >= since:
            return str(self.op(kind, x, axes, **attributes))
        return str(self.op(kind, x, axes=axes, **attributes))

    def mean(self, x: str) -> str:
        return self.axes_op("ReduceMean", x, [-1], since=18, keepdims=1)

    def split(self, x: str, sizes: list[int], axis: int = -1) -> list[str]:
        if self.opset >= 13:
            return list(self.op("Split", x, sizes, outputs=len(sizes), axis=axis))
        return list(self.op("Split", x, outputs=len(sizes), axis=axis, split=sizes))

    def minimum(self, x: str, maximum: int) -> str:
        """The lesser of whole numbers, which Min knows from opset 12 on."""
        max_as_tensor = self.constant(np.array([[maximum]], np.int64))
        if self.opset >= 12:
            return str(self.op("Min", x, max_as_tensor))
        return str(self.op("Where", self.op("Less", x, max_as_tensor), x, max_as_tensor))

    # Shape arithmetic

    def size(self, x: str, axis: int) -> str:
        """The extent of one dimension, asked at run time."""
        return str(self.op("Gather", self.op("Shape", x), np.array(axis, np.int64), axis=0))

    def shape(self, *parts: str | int) -> str:
        """A shape put together from extents and numbers."""
        columns = [
            self.axes_op("Unsqueeze", part, [0]) if isinstance(part, str) else self.constant([part])
            for part in parts
        ]
        return str(self.op("Concat", *columns, axis=0))

    def reshape(self, x: str, *parts: str | int) -> str:
        fixed = all(isinstance(part, int) for part in parts)
        shape = self.constant([int(part) for part in parts]) if fixed else self.shape(*parts)
        return str(self.op("Reshape", x, shape))

    # Layers

    def linear(self, x: str, size_in: int, size_out: int, bias: bool = True) -> str:
        """A fully connected layer on three dimensions: MatMul, then the bias as the first operand of Add."""
        product = str(self.op("MatMul", x, self.weight(size_in, size_out)))
        return str(self.op("Add", self.weight(size_out, scale=0.1), product)) if bias else product

    def layer_norm(self, x: str, size: int) -> str:
        centred = self.op("Sub", x, self.mean(x))
        variance = self.mean(self.op("Pow", centred, 2.0))
        normal = self.op("Div", centred, self.op("Sqrt", self.op("Add", variance, 1e-5)))
        scaled = self.op("Mul", normal, self.weight(size, scale=0.1, around=1.0))
        return str(self.op("Add", scaled, self.weight(size, scale=0.1)))

    def rms_norm(self, x: str, size: int) -> str:
        square = self.mean(self.op("Pow", x, 2.0))
        inverse = self.op("Div", 1.0, self.op("Sqrt", self.op("Add", square, 1e-6)))
        return str(self.op("Mul", self.weight(size, scale=0.1, around=1.0), self.op("Mul", x, inverse)))

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, float(np.sqrt(2))))
        return str(self.op("Mul", self.op("Mul", x, self.op("Add", erf, 1.0)), 0.5))

    def gelu_tanh(self, x: str) -> str:
        half, cube = self.op("Mul", x, 0.5), self.op("Pow", x, 3.0)
        inner = self.op("Mul", self.op("Add", x, self.op("Mul", cube, 0.044715)), float(np.sqrt(2 / np.pi)))
        return str(self.op("Mul", half, self.op("Add", self.op("Tanh", inner), 1.0)))

    def model(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> onnx.ModelProto:
        """The model; ports are shapes of float32, or (type, shape)."""
        ports = [
            [
                helper.make_tensor_value_info(name, *(port if isinstance(port, tuple) else (1, port)))
                for name, port in group.items()
            ]
            for group in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "main_graph", *ports, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="pytorch")

    def named(self, x: str, name: str) -> str:
        """Gives the last node that made `x` the output's name."""
        for node in self.nodes:
            for values in (node.input, node.output):
                for place, value in enumerate(values):
                    if value == x:
                        values[place] = name
        return name


SIZES = {"batch": 2, "sequence": 12, "written": 7, "past": 5}


def feeds_of(model: onnx.ModelProto, seed: int = 0, **sizes: int) -> dict[str, np.ndarray]:
    """Inputs for one of these models: tokens, masks with padding at the end, and numbers."""
    random, feeds = np.random.default_rng(seed), {}
    for port in model.graph.input:
        tensor = port.type.tensor_type
        shape = [(SIZES | sizes)[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
        if tensor.elem_type != INT64:
            feeds[port.name] = random.standard_normal(shape).astype(np.float32)
        elif "mask" in port.name:
            feeds[port.name] = np.ones(shape, np.int64)
            feeds[port.name][-1, shape[1] * 2 // 3 :] = 0
        else:
            low, high = (0, 2) if "type" in port.name else (2, 99)
            feeds[port.name] = random.integers(low, high, shape)
    return feeds
