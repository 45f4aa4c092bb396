"""What an OpenVINO IR is made of, from its XML alone: neither OpenVINO nor the weights are needed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeopt.errors import ModelError
from edgeopt.graph.analysis.records import (
    Analysis,
    FileRow,
    NodeRow,
    Tensor,
    WeightRow,
    largest,
    operator_rows,
    unknown_shapes,
)
from edgeopt.graph.model import digest_of

# xml.etree's elements; their class lives in a module that is imported late.
Element = Any
_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3",
    "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "i4": "int4",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "u4": "uint4", "u2": "uint2", "u1": "uint1",
    "bool": "bool", "boolean": "bool", "string": "str",
}  # fmt: skip
_NOT_NODES = frozenset({"Parameter", "Const", "Result"})


def analyze_ir(path: Path) -> Analysis:
    """Reads `NAME.xml` and says what is in it; raises ModelError for what is no IR."""
    net = _parse(path)
    weights_file = path.with_suffix(".bin")
    files = (path, weights_file) if weights_file.is_file() else (path,)
    stored: dict[tuple[str, str], WeightRow] = {}
    nodes = tuple(_rows(net, stored))
    main = {layer.get("id"): layer for layer in net.iterfind("layers/layer")}
    producers = _producers(net)
    weights = list(stored.values())
    return Analysis(
        name=path.name,
        path=str(path),
        kind="model",
        format="OpenVINO IR",
        digest=digest_of(files),
        size_bytes=sum(file.stat().st_size for file in files),
        weights_bytes=sum(row.size_bytes for row in weights),
        parameters=sum(row.parameters for row in weights),
        nodes_count=len(nodes),
        inputs=tuple(_ports(layer, "output")[0] for layer in main.values() if layer.get("type") == "Parameter"),
        outputs=tuple(_result(layer, main, producers) for layer in main.values() if layer.get("type") == "Result"),
        operators=operator_rows(nodes),
        nodes=nodes,
        weights_count=len(weights),
        weights=largest(weights),
        ir_version=_whole(net.get("version")),
        producer="OpenVINO",
        external_files=tuple(FileRow(file.name, file.stat().st_size) for file in files[1:]),
        warnings=tuple(_warnings(nodes, weights, weights_file)),
    )


def _parse(path: Path) -> Element:
    from xml.etree import ElementTree as ET

    try:
        net = ET.parse(path).getroot()  # noqa: S314 - expat itself refuses entities that grow
    except FileNotFoundError:
        raise ModelError(f"There is no file '{path}'.", "Check the path.") from None
    except (ET.ParseError, OSError, ValueError) as error:
        raise ModelError(
            f"'{path.name}' is not a readable OpenVINO model: {error}.", "Convert the model again."
        ) from None
    if net.tag != "net" or net.find("layers") is None:
        raise ModelError(f"'{path.name}' is XML, but no OpenVINO model.", "Give the .xml that OpenVINO wrote.")
    return net


def _rows(net: Element, stored: dict[tuple[str, str], WeightRow]) -> Iterator[NodeRow]:
    position = 0
    for body, inside in _bodies(net, ""):
        layers = {layer.get("id"): layer for layer in body.iterfind("layers/layer")}
        producers = _producers(body)
        constants = {
            number: _weight(layer, stored) for number, layer in layers.items() if layer.get("type") == "Const"
        }
        for number, layer in layers.items():
            source = producers.get((number, "0"))
            if layer.get("type") == "Convert" and source is not None and source[0] in constants:
                # How an IR stores compressed weights; loading it undoes that, so it is part of the weight.
                constants[number] = constants[source[0]]
            if layer.get("type") in _NOT_NODES or number in constants:
                continue
            sources = [producers.get((layer.get("id"), port.get("id"))) for port in layer.iterfind("input/port")]
            read = {s: row for s in sources if s is not None and (row := constants.get(s[0])) is not None}
            inputs = zip(sources, _ports(layer, "input"), strict=True)
            yield NodeRow(
                position,
                layer.get("name", ""),
                layer.get("type", ""),
                "" if layer.get("version", "opset").startswith("opset") else layer.get("version", ""),
                tuple(Tensor(_source_name(source, layers), t.dtype, t.shape) for source, t in inputs),
                _ports(layer, "output"),
                sum(row.size_bytes for row in read.values()),
                sum(row.parameters for row in read.values()),
                inside,
            )
            position += 1


def _bodies(net: Element, inside: str) -> Iterator[tuple[Element, str]]:
    """The graph itself, then those inside its loops and branches."""
    yield net, inside
    for layer in net.iterfind("layers/layer"):
        for child in layer:
            if child.tag.endswith("body") and child.find("layers") is not None:
                yield from _bodies(child, f"{inside}{'/' if inside else ''}{layer.get('name', '')}/{child.tag}")


def _producers(body: Element) -> dict[tuple[str | None, str | None], tuple[str | None, str | None]]:
    """(layer, port) that is read, by the (layer, port) that reads it."""
    return {
        (edge.get("to-layer"), edge.get("to-port")): (edge.get("from-layer"), edge.get("from-port"))
        for edge in body.iterfind("edges/edge")
    }


def _weight(layer: Element, stored: dict[tuple[str, str], WeightRow]) -> WeightRow | None:
    """The weight of a Const; those at one place in the file are one."""
    data = layer.find("data")
    if data is None:
        return None
    key = data.get("offset", ""), data.get("size", "")
    shape = tuple(_whole(text) or 0 for text in data.get("shape", "").replace(",", " ").split())
    parameters = 1
    for size in shape:
        parameters *= size
    row = WeightRow(
        layer.get("name", ""), _dtype(data.get("element_type")) or "", shape, _whole(key[1]) or 0, parameters
    )
    return stored.setdefault(key, row)


def _ports(layer: Element, side: str) -> tuple[Tensor, ...]:
    rows = []
    for place, port in enumerate(layer.iterfind(f"{side}/port")):
        names = port.get("names") or layer.get("name", "") + (f":{place}" if place else "")
        sizes = [_whole(dimension.text) for dimension in port.iterfind("dim")]
        shape = tuple(size if size is not None and size >= 0 else None for size in sizes)
        rows.append(Tensor(names.split(",")[0], _dtype(port.get("precision")), shape))
    return tuple(rows)


def _source_name(source: tuple[str | None, str | None] | None, layers: dict[str | None, Element]) -> str:
    layer = layers.get(source[0]) if source is not None else None
    if source is None or layer is None:
        return ""
    ports = [port.get("id") for port in layer.iterfind("output/port")]
    return _ports(layer, "output")[ports.index(source[1])].name if source[1] in ports else layer.get("name", "")


def _result(
    layer: Element,
    layers: dict[str | None, Element],
    producers: dict[tuple[str | None, str | None], tuple[str | None, str | None]],
) -> Tensor:
    (port,) = _ports(layer, "input")[:1] or (Tensor(layer.get("name", "")),)
    first = layer.find("input/port")
    source = producers.get((layer.get("id"), first.get("id") if first is not None else None))
    return Tensor(_source_name(source, layers) or port.name, port.dtype, port.shape)


def _dtype(text: str | None) -> str | None:
    """numpy's name; constants say `f32` where ports say FP32."""
    name = (text or "").lower().replace("fp", "f")
    return _DTYPES.get(name, name) or None


def _whole(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


def _warnings(nodes: tuple[NodeRow, ...], weights: list[WeightRow], weights_file: Path) -> Iterator[str]:
    if weights and not weights_file.is_file():
        yield f"The weights are missing: '{weights_file.name}' is not beside the model."
    shapes = unknown_shapes(nodes)
    if shapes:
        yield shapes
