"""Finds the input or output that keeps OpenVINO from reading an ONNX file: OpenVINO names operators at best."""

from pathlib import Path

from edgeopt.backends.protobuf import GRAPH, numbered_parts, opened, parts, text

_INPUT, _OUTPUT = 11, 12  # in GraphProto
_NAME, _TYPE = 1, 2  # in ValueInfoProto
_KINDS = {4: "a list", 5: "a table", 8: "a sparse tensor", 9: "an optional value"}  # in TypeProto


def odd_port(path: Path) -> str | None:
    """What the file takes or gives that is no tensor, such as "'scores' is a list"; None where all are tensors."""
    try:
        with opened(path) as data:
            for graph in parts(data, (0, len(data)), (GRAPH,)):
                for port in parts(data, graph, (_INPUT, _OUTPUT)):
                    name = text(data, next(parts(data, port, (_NAME,)), (0, 0)))
                    for kind in parts(data, port, (_TYPE,)):
                        for number, _, _ in numbered_parts(data, kind, tuple(_KINDS)):
                            return f"'{name}' is {_KINDS[number]}"
    except (IndexError, KeyError, ValueError, OSError):
        # Damaged: OpenVINO's own sentence is the better one.
        return None
    return None
