"""What tells nodes of one operator from each other, in a few words: a case speaks for nodes of its form alone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from edgeopt.commands.ops.case import Attribute

Shape = tuple[int | str | None, ...]
Given = Sequence[tuple[str | None, Shape | None]]
"""Type and shape of each input; None where it is not known or left out."""
_WINDOWED = ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")
_SPATIAL = (
    *(*_WINDOWED, "GlobalAveragePool", "GlobalMaxPool", "Resize", "BatchNormalization"),
    *("InstanceNormalization", "GroupNormalization", "GridSample"),
)
_USUAL_RANK = 4
# By operator: the attributes that change what it does, with their defaults.
_MODES: dict[str, dict[str, Attribute]] = {
    "Pad": {"mode": "constant"},
    "DepthToSpace": {"mode": "DCR"},
    "Resize": {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"},
    "LSTM": {"direction": "forward"},
    "GRU": {"direction": "forward"},
    "RNN": {"direction": "forward"},
    "Gelu": {"approximate": "none"},
}
_NEAREST = "round_prefer_floor"
# By operator: switches, and how they are called where they are on.
_SWITCHES = {
    "GRU": {"linear_before_reset": "reset last"},
    "MaxPool": {"ceil_mode": "ceil"},
    "AveragePool": {"ceil_mode": "ceil", "count_include_pad": "pads count"},
    "Attention": {"is_causal": "causal"},
}


def form(operator: str, given: Given, attributes: Mapping[str, Attribute]) -> str:
    """Of a node or a case; empty for the usual one: two dimensions, one group, no dilation, forward."""
    words = [*_rank(operator, given), *_window(operator, given, attributes)]
    words += [str(attributes.get(name, usual)) for name, usual in _MODES.get(operator, {}).items()]
    if operator == "Resize" and words and "nearest" in words:
        words.append(str(attributes.get("nearest_mode", _NEAREST)))
    words += [word for name, word in _SWITCHES.get(operator, {}).items() if attributes.get(name)]
    if operator == "Cast" and given:
        words.append(f"from {given[0][0]} to {attributes.get('to')}")
    return " ".join(words)


def _rank(operator: str, given: Given) -> list[str]:
    if operator not in _SPATIAL:
        return []
    shape = given[0][1] if given else None
    if shape is None and operator in {"Conv", "ConvTranspose"} and len(given) > 1:
        shape = given[1][1]  # of the weights, which have as many dimensions
    if shape is None:
        return ["of unknown rank"]
    return [] if len(shape) == _USUAL_RANK else [f"{len(shape) - 2}-D"]


def _window(operator: str, given: Given, attributes: Mapping[str, Attribute]) -> list[str]:
    if operator not in _WINDOWED:
        return []
    words = []
    group = attributes.get("group", 1)
    if group != 1:
        shape = given[0][1] if given else None
        channels = shape[1] if shape is not None and len(shape) > 1 else None
        words.append("depth-wise" if channels == group else "in groups")
    dilations = attributes.get("dilations", ())
    if isinstance(dilations, tuple) and any(each != 1 for each in dilations):
        words.append("dilated")
    return words


def attributes_of(path: Path) -> dict[str, dict[str, Attribute]]:
    """Of every node of a model, by the name of its first output."""
    import onnx_ir as ir

    from edgeopt.graph.model import load

    kinds = {
        *(ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING),
        *(ir.AttributeType.INTS, ir.AttributeType.FLOATS),
    }
    found: dict[str, dict[str, Attribute]] = {}
    for graph in load(path).ir.graphs():
        for node in graph:
            own = {
                name: tuple(attribute.value) if isinstance(attribute.value, (list, tuple)) else attribute.value
                for name, attribute in node.attributes.items()
                if not attribute.is_ref() and attribute.type in kinds
            }
            found[first_name(value.name for value in node.outputs)] = own
    return found


def first_name(names: Iterable[str | None]) -> str:
    """Of a node's outputs, the first that is not left out."""
    return next((name for name in names if name), "")
