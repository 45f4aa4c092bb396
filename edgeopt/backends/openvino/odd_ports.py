"""What OpenVINO does not say of an ONNX file's inputs and outputs: their names, and which one it cannot take."""

from collections.abc import Sequence
from pathlib import Path

from edgeopt.backends.protobuf import GRAPH, NODES, numbered_parts, opened, parts, text

_INPUT, _OUTPUT = 11, 12  # in GraphProto
_NAME, _TYPE = 1, 2  # in ValueInfoProto
_OPERAND, _RESULT = 1, 2  # in NodeProto
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


def inputs_behind(path: Path, names: Sequence[str]) -> list[str]:
    """The input of the file that each of these values comes from, by first operands; itself if none."""
    inputs, made_of = set[str](), dict[str, str]()
    try:
        with opened(path) as data:
            for graph in parts(data, (0, len(data)), (GRAPH,)):
                for port in parts(data, graph, (_INPUT,)):
                    inputs.add(text(data, next(parts(data, port, (_NAME,)))))
                if inputs.issuperset(names):
                    return [*names]
                for node in parts(data, graph, (NODES,)):
                    operand = text(data, next(parts(data, node, (_OPERAND,)), (0, 0)))
                    made_of.update((text(data, one), operand) for one in parts(data, node, (_RESULT,)))
    except (IndexError, KeyError, ValueError, OSError, StopIteration):
        return [*names]
    return [_first(name, inputs, made_of) for name in names]


def _first(name: str, inputs: set[str], made_of: dict[str, str]) -> str:
    found, passed = name, set[str]()
    while found not in inputs:
        if found not in made_of or found in passed:
            return name
        passed.add(found)
        found = made_of[found]
    return found
