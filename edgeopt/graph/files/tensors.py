"""What the tensors of a model file hold: as much data as they promise, and no sparse ones, which onnx-ir drops."""

import math
from typing import Any

from edgeopt.graph.files.external import EXTERNAL, subgraphs, tensors

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto and TensorProto.
Proto = Any
DENSE_LIMIT_BYTES = 1_500_000_000
STRING, COMPLEX64, COMPLEX128 = 8, 14, 15
TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def tensor_fault(model: Proto) -> str | None:
    """What is wrong with the first tensor whose data is not what its type and shape promise, or None."""
    import onnx_ir as ir

    for tensor in tensors(model):
        name = f"its weight '{tensor.name}'" if tensor.name else "one of its constants"
        if any(size < 0 for size in tensor.dims):
            return f"{name} has a negative dimension"
        try:
            bits = 0 if tensor.data_type == STRING else ir.DataType(tensor.data_type).bitwidth
        except (ValueError, TypeError):
            return f"{name} has the unknown data type {tensor.data_type}"
        count = math.prod(tensor.dims)
        if tensor.data_location == EXTERNAL:
            continue
        if tensor.HasField("raw_data"):
            wanted, got, what = math.ceil(count * bits / 8), len(tensor.raw_data), "bytes"
        else:
            wanted, what = _stored(tensor.data_type, count, bits), "values"
            got = sum(len(getattr(tensor, field)) for field in TYPED_FIELDS)
        if wanted != got:
            return f"{name} has {got:,} {what}; its type and shape need {wanted:,}"
    return None


def _stored(data_type: int, count: int, bits: int) -> int:
    """How many numbers stand for `count` elements; types of 2 and 4 bits share a byte, complex ones take two."""
    if data_type in {COMPLEX64, COMPLEX128}:
        return 2 * count
    return math.ceil(count * bits / 8) if bits in {2, 4} else count


def make_dense(model: Proto) -> list[str]:
    """Turns sparse weights and constants into dense ones; gives their names."""
    done = _dense_graph(model.graph)
    for function in model.functions:
        done += _dense_nodes(function.node)
    return done


def _dense_graph(graph: Proto) -> list[str]:
    done = [sparse.values.name for sparse in graph.sparse_initializer]
    for sparse in graph.sparse_initializer:
        graph.initializer.append(_dense(sparse))
    del graph.sparse_initializer[:]
    return done + _dense_nodes(graph.node)


def _dense_nodes(nodes: Proto) -> list[str]:
    done: list[str] = []
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("sparse_tensor") and attribute.name == "sparse_value":
                tensor = _dense(attribute.sparse_tensor)
                attribute.ClearField("sparse_tensor")
                attribute.name, attribute.type = "value", type(attribute).TENSOR
                attribute.t.CopyFrom(tensor)
                done.append(node.output[0])
            for inner in subgraphs(attribute):
                done += _dense_graph(inner)
    return done


def _dense(sparse: Proto) -> Proto:
    """Indices count either along the flattened tensor or, in rows, along each of its dimensions."""
    import numpy as np
    import onnx.numpy_helper

    values = onnx.numpy_helper.to_array(sparse.values)
    places = onnx.numpy_helper.to_array(sparse.indices)
    shape = tuple(sparse.dims)
    size = math.prod(shape) * values.dtype.itemsize
    if size > DENSE_LIMIT_BYTES:
        raise ValueError(f"the sparse weight '{sparse.values.name}' would take {size:,} bytes")
    array = np.zeros(shape, values.dtype)
    array[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, shape)] = values
    return onnx.numpy_helper.from_array(array, sparse.values.name)
