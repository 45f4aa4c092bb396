"""Which inputs and outputs of a model file have a shape, and the names of their dimensions.

ONNX Runtime reports `[]` both for a single number and for a tensor of unknown shape; the file tells
them apart.
"""

from pathlib import Path

from edgeopt.backends.protobuf import GRAPH, opened, parts, text

_INPUT, _OUTPUT = 11, 12  # in GraphProto
_NAME, _TYPE = 1, 2  # in ValueInfoProto
_TENSOR = 1  # in TypeProto
_SHAPE = 2  # in TypeProto.Tensor
_DIMENSION = 1  # in TensorShapeProto
_PARAMETER = 2  # in TensorShapeProto.Dimension


def names_with_shape(path: Path) -> frozenset[str]:
    """The inputs and outputs of the graph that state a shape, be it an empty one."""
    with opened(path) as data:
        return frozenset(
            text(data, next(parts(data, value, (_NAME,)), (0, 0)))
            for graph in parts(data, (0, len(data)), (GRAPH,))
            for value in parts(data, graph, (_INPUT, _OUTPUT))
            for kind in parts(data, value, (_TYPE,))
            for tensor in parts(data, kind, (_TENSOR,))
            for _ in parts(data, tensor, (_SHAPE,))
        )


def dimension_names(path: Path) -> tuple[str, ...]:
    """The named dimensions of the inputs, each once."""
    with opened(path) as data:
        names = [
            text(data, name)
            for graph in parts(data, (0, len(data)), (GRAPH,))
            for value in parts(data, graph, (_INPUT,))
            for kind in parts(data, value, (_TYPE,))
            for tensor in parts(data, kind, (_TENSOR,))
            for shape in parts(data, tensor, (_SHAPE,))
            for dimension in parts(data, shape, (_DIMENSION,))
            for name in parts(data, dimension, (_PARAMETER,))
        ]
    return tuple(dict.fromkeys(names))
