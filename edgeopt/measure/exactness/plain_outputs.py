"""Sequences and maps as tensors, for a proof: backends return tensors only and refuse such models."""

from pathlib import Path
from typing import Any

# protobuf classes carry no types; these are onnx's ModelProto, NodeProto and ValueInfoProto.
Proto = Any
KINDS = ("sequence_type", "map_type", "optional_type")


def has_other_outputs(path: Path) -> bool:
    """Whether something else than tensors comes out."""
    import onnx

    return any(map(_is_other, onnx.load(path, load_external_data=False).graph.output))


def write_with_tensors(source: Path, target: Path) -> None:
    """A copy whose sequences come out as their length and their elements in a row, and maps as their values.

    A runtime refuses it where the elements do not fit together.
    """
    import onnx

    proto = onnx.load(source)
    makers = {name: node for node in proto.graph.node for name in node.output}
    outputs = list(proto.graph.output)
    del proto.graph.output[:]
    for value in outputs:
        for node, info in _tensors(value, makers.get(value.name)) if _is_other(value) else [(None, value)]:
            proto.graph.node.extend([node] if node is not None else [])
            proto.graph.output.append(info)
    onnx.save(proto, target)


def _is_other(value: Proto) -> bool:
    return value.type.WhichOneof("value") in KINDS


def _tensors(value: Proto, maker: Proto | None) -> list[tuple[Proto, Proto]]:
    """Nodes that make tensors of it, and what these are."""
    from onnx import TensorProto, helper

    if maker is not None and maker.op_type == "ZipMap":
        # It writes a table as maps; its attributes name the columns.
        made = f"{value.name}.values"
        node = helper.make_node("Identity", [maker.input[0]], [made])
        return [(node, helper.make_tensor_value_info(made, TensorProto.FLOAT, None))]
    inside = value.type.sequence_type.elem_type.tensor_type.elem_type
    length, rows = f"{value.name}.length", f"{value.name}.elements"
    return [
        (
            helper.make_node("SequenceLength", [value.name], [length]),
            helper.make_tensor_value_info(length, TensorProto.INT64, []),
        ),
        (
            helper.make_node("ConcatFromSequence", [value.name], [rows], axis=0),
            helper.make_tensor_value_info(rows, inside, None),
        ),
    ]
