"""What OpenVINO does not say of an ONNX file's inputs and outputs: their names, and which one it cannot take."""

from pathlib import Path

from edgeopt.backends.protobuf import GRAPH, numbered_parts, opened, parts, text

_WEIGHT, _INPUT, _OUTPUT = 5, 11, 12  # in GraphProto
_NAME, _TYPE = 1, 2  # in ValueInfoProto
_WEIGHT_NAME = 8  # in TensorProto
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


def input_names(path: Path) -> list[str]:
    """What the file calls its inputs, in order, without weights that are listed there; empty if it is damaged."""
    names, weights = list[str](), set[str]()
    try:
        with opened(path) as data:
            for graph in parts(data, (0, len(data)), (GRAPH,)):
                for number, *span in numbered_parts(data, graph, (_WEIGHT, _INPUT)):
                    field = _NAME if number == _INPUT else _WEIGHT_NAME
                    name = text(data, next(parts(data, (span[0], span[1]), (field,)), (0, 0)))
                    names.append(name) if number == _INPUT else weights.add(name)
    except (IndexError, KeyError, ValueError, OSError):
        return []
    return [name for name in names if name not in weights]
