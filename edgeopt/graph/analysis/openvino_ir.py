"""Structure of an OpenVINO IR, read from its XML; needs neither OpenVINO nor the weights file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgeopt.errors import ModelError
from edgeopt.graph.analysis.categories import OperatorType, operator_type
from edgeopt.graph.analysis.cost import cost_of
from edgeopt.graph.analysis.cost.call import Attribute, Call, Operand
from edgeopt.graph.analysis.records import (
    Analysis,
    AnalysisOptions,
    Cost,
    FileRow,
    NodeRow,
    TensorFacts,
    WeightRow,
    largest,
    unknown_shapes,
)
from edgeopt.graph.analysis.roofline import timed
from edgeopt.graph.analysis.sums import HOLDERS, category_rows, operator_rows, work
from edgeopt.graph.model import digest_of

_SAME = (
    "Relu Sigmoid Tanh Gelu Swish Mish Elu Selu Add Mod Sqrt Exp Log Erf Abs Floor Round Sign Sin Cos Tan Asin "
    "Acos Atan Sinh Cosh Asinh Acosh Atanh Equal Less Greater IsNaN IsInf ReduceMean ReduceSum ReduceMax "
    "ReduceMin ReduceProd ReduceL1 ReduceL2 MaxPool LogSoftmax GroupNormalization LRN Reshape Squeeze Unsqueeze "
    "Transpose Concat Split Slice Gather GatherND GatherElements Pad Tile DepthToSpace SpaceToDepth Range "
    "OneHot NonZero TopK NonMaxSuppression CumSum Einsum ReverseSequence RandomUniform GridSample MatMul If "
    "Loop Identity Unique Col2Im HardSigmoid"
)
_OTHERWISE = {
    "Convolution": "Conv", "GroupConvolution": "Conv", "BinaryConvolution": "Conv",
    "ConvolutionBackpropData": "ConvTranspose", "GroupConvolutionBackpropData": "ConvTranspose",
    "DeformableConvolution": "DeformConv", "PReLU": "PRelu", "ReLU": "Relu", "Clamp": "Clip",
    "HSwish": "HardSwish", "HSigmoid": "HardSigmoid", "SoftPlus": "Softplus", "SoftSign": "Softsign",
    "Subtract": "Sub", "Multiply": "Mul", "Divide": "Div", "Power": "Pow", "Negative": "Neg", "Ceiling": "Ceil",
    "Maximum": "Max", "Minimum": "Min", "NotEqual": "Equal", "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual", "LogicalAnd": "And", "LogicalOr": "Or", "LogicalNot": "Not", "LogicalXor": "Xor",
    "Select": "Where", "FloorMod": "Mod", "SquaredDifference": "GatedAdd", "ReduceLogicalAnd": "ReduceMin",
    "ReduceLogicalOr": "ReduceMax", "AvgPool": "AveragePool", "SoftMax": "Softmax",
    "MVN": "MeanVarianceNormalization", "BatchNormInference": "BatchNormalization",
    "NormalizeL2": "LpNormalization", "RMS": "RMSNormalization", "VariadicSplit": "Split",
    "StridedSlice": "Slice", "Broadcast": "Expand", "ShapeOf": "Shape", "Convert": "Cast",
    "ConvertLike": "CastLike", "ScatterUpdate": "ScatterND", "ScatterNDUpdate": "ScatterND",
    "ScatterElementsUpdate": "ScatterElements", "Interpolate": "Resize", "ROIAlign": "RoiAlign",
    "FakeQuantize": "QuantizeLinear", "ScaledDotProductAttention": "Attention", "RoPE": "RotaryEmbedding",
    "LSTMSequence": "LSTM", "GRUSequence": "GRU", "RNNSequence": "RNN", "TensorIterator": "Loop",
    "ReadValue": "Identity", "Assign": "Identity", "DFT": "DFT", "IDFT": "DFT", "STFT": "STFT",
    "Result": "Identity", "MatrixNonMaxSuppression": "NonMaxSuppression",
    "MulticlassNonMaxSuppression": "NonMaxSuppression",
}  # fmt: skip
IN_ONNX = {**{name: name for name in _SAME.split()}, **_OTHERWISE}
# The positions of a recurrent layer's weights: for the input, and for the state.
_WEIGHTS = {"LSTMSequence": (4, 5), "GRUSequence": (3, 4), "RNNSequence": (3, 4)}
_ATTRIBUTES = {"kernel": "kernel_shape", "transpose_a": "transA", "transpose_b": "transB"}


def layer_type(kind: str) -> OperatorType:
    return operator_type(IN_ONNX.get(kind, kind))


def layer_call(
    kind: str, inputs: Sequence[Operand | None], outputs: Sequence[Operand | None], data: Mapping[str, str]
) -> Call:
    """Maps a layer to an ONNX operator; a type without an equivalent keeps its name, so that no rule matches."""
    operands = list(inputs)
    if kind.startswith("Group") and "Convolution" in kind and len(operands) > 1:
        operands[1] = _without_groups(operands[1])
    if kind in _WEIGHTS and len(operands) > _WEIGHTS[kind][1]:
        weights, recurrent = _WEIGHTS[kind]
        operands = [operands[0], operands[weights], operands[recurrent]]
    if kind == "ScaledDotProductAttention":
        operands = operands[:3]
    return Call(IN_ONNX.get(kind, kind), tuple(operands), tuple(outputs), attributes=_attributes(data))


def _without_groups(weights: Operand | None) -> Operand | None:
    """Merges the group dimension of convolution weights, [groups, channels of one, ...], as ONNX stores them."""
    if weights is None or weights.shape is None or len(weights.shape) < 2:
        return weights
    groups, channels, *rest = weights.shape
    return replace(weights, shape=(groups * channels, *rest))


def _attributes(data: Mapping[str, str]) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for name, text in data.items():
        called = _ATTRIBUTES.get(name, name)
        parts = [part.strip() for part in text.split(",")]
        if text in {"true", "false"}:
            found[called] = int(text == "true")
        elif all(part.lstrip("-").isdigit() for part in parts):
            found[called] = tuple(int(part) for part in parts) if name == "kernel" or len(parts) > 1 else int(text)
        else:
            found[called] = text.replace("linear_onnx", "linear")
    return found


# xml.etree's elements; their class lives in a module that is imported late.
Element = Any
AS_IN_THE_FILE = AnalysisOptions()
_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3",
    "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "i4": "int4",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "u4": "uint4", "u2": "uint2", "u1": "uint1",
    "bool": "bool", "boolean": "bool", "string": "str",
}  # fmt: skip
_BITS = {
    "float64": 64, "int64": 64, "uint64": 64, "float32": 32, "int32": 32, "uint32": 32, "float16": 16,
    "bfloat16": 16, "int16": 16, "uint16": 16, "int8": 8, "uint8": 8, "bool": 8, "float8_e4m3": 8,
    "float8_e5m2": 8, "int4": 4, "uint4": 4, "uint2": 2, "uint1": 1,
}  # fmt: skip
_NOT_NODES = frozenset({"Parameter", "Const", "Result"})


def analyze_ir(path: Path, options: AnalysisOptions = AS_IN_THE_FILE) -> Analysis:
    """Analyzes `NAME.xml`; raises ModelError if it is not an OpenVINO IR."""
    net = _parse(path)
    weights_file = path.with_suffix(".bin")
    files = (path, weights_file) if weights_file.is_file() else (path,)
    stored: dict[tuple[str, str], WeightRow] = {}
    main = {layer.get("id"): layer for layer in net.iterfind("layers/layer")}
    batch, batch_note = _batch(
        [_ports(each, "output")[0] for each in main.values() if each.get("type") == "Parameter"], options
    )
    nodes, least_reason = timed(_rows(net, stored, batch), options)
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
        categories=category_rows(nodes),
        work=work(nodes, (None, "", 0), least_reason, batch_note),
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
        raise ModelError(
            f"'{path.name}' is XML, but not an OpenVINO model.", "Pass the .xml file that OpenVINO wrote."
        )
    return net


def _rows(net: Element, stored: dict[tuple[str, str], WeightRow], batch: int | None) -> Iterator[NodeRow]:
    position = 0
    counted: set[int] = set()
    for body, inside in _bodies(net, ""):
        layers = {layer.get("id"): layer for layer in body.iterfind("layers/layer")}
        producers = _producers(body)
        constants = {
            number: _weight(layer, stored) for number, layer in layers.items() if layer.get("type") == "Const"
        }
        for number, layer in layers.items():
            source = producers.get((number, "0"))
            if layer.get("type") == "Convert" and source is not None and source[0] in constants:
                # An IR stores compressed weights like this; loading undoes that, so it counts as the weight.
                constants[number] = constants[source[0]]
            if layer.get("type") in _NOT_NODES or number in constants:
                continue
            sources = [producers.get((layer.get("id"), port.get("id"))) for port in layer.iterfind("input/port")]
            read = {s: row for s in sources if s is not None and (row := constants.get(s[0])) is not None}
            inputs = tuple(
                TensorFacts(_source_name(source, layers), t.dtype, t.shape)
                for source, t in zip(sources, _ports(layer, "input"), strict=True)
            )
            outputs = _ports(layer, "output")
            held = [None if source is None else constants.get(source[0]) for source in sources]
            kind = layer.get("type", "")
            yield NodeRow(
                position,
                layer.get("name", ""),
                kind,
                "" if layer.get("version", "opset").startswith("opset") else layer.get("version", ""),
                inputs,
                outputs,
                sum(row.size_bytes for row in read.values()),
                sum(row.parameters for row in read.values()),
                inside,
                layer_type(kind).value,
                _cost(layer, _with_batch(inputs, batch), _with_batch(outputs, batch), held),
                counted_weights_bytes=sum(row.size_bytes for row in read.values() if id(row) not in counted),
            )
            counted |= {id(row) for row in read.values()}
            position += 1


def _batch(inputs: list[TensorFacts], options: AnalysisOptions) -> tuple[int | None, tuple[str, ...]]:
    """Returns the first dimension's size (default 1) with a note, if no other is open; an IR has no names for
    more."""
    opened = [tensor for tensor in inputs if tensor.shape is None or None in tensor.shape]
    if not opened or any(tensor.shape is None or None in tensor.shape[1:] for tensor in opened):
        return None, ()
    wished = next((options.shapes[tensor.name][0] for tensor in opened if options.shapes.get(tensor.name)), None)
    places = ", ".join(f"{tensor.name}[0]" for tensor in opened)
    size = 1 if wished is None else wished
    return size, (f"{places} = {size} ({'assumed' if wished is None else 'given'})",)


def _with_batch(tensors: tuple[TensorFacts, ...], batch: int | None) -> tuple[TensorFacts, ...]:
    return tuple(
        TensorFacts(tensor.name, tensor.dtype, (batch, *tensor.shape[1:]))
        if batch is not None and tensor.shape and tensor.shape[0] is None
        else tensor
        for tensor in tensors
    )


def _cost(
    layer: Element, inputs: tuple[TensorFacts, ...], outputs: tuple[TensorFacts, ...], held: list[WeightRow | None]
) -> Cost:
    kind = layer.get("type", "")
    if kind in HOLDERS:
        return Cost(0, 0, 0, 0, "the number of iterations is not in the file; its body counts once")
    operands = [_operand(tensor, weight) for tensor, weight in zip(inputs, held, strict=True)]
    data = layer.find("data")
    attributes = {} if data is None else dict(data.attrib)
    return cost_of(layer_call(kind, operands, [_operand(tensor, None) for tensor in outputs], attributes))


def _operand(tensor: TensorFacts, weight: WeightRow | None) -> Operand:
    """Makes an operand; a weight counts in its stored type, which may have fewer bits than the computation."""
    shape = None if tensor.shape is None else tuple(d for d in tensor.shape if isinstance(d, int))
    if shape is not None and tensor.shape is not None and len(shape) != len(tensor.shape):
        shape = None
    bits = _BITS.get(tensor.dtype or "")
    if weight is not None and weight.parameters:
        bits = weight.size_bytes * 8 // weight.parameters
    return Operand(tensor.name, shape, bits)


def _bodies(net: Element, inside: str) -> Iterator[tuple[Element, str]]:
    """Yields the graph itself, then the graphs inside its loops and branches."""
    yield net, inside
    for layer in net.iterfind("layers/layer"):
        for child in layer:
            if child.tag.endswith("body") and child.find("layers") is not None:
                yield from _bodies(child, f"{inside}{'/' if inside else ''}{layer.get('name', '')}/{child.tag}")


def _producers(body: Element) -> dict[tuple[str | None, str | None], tuple[str | None, str | None]]:
    """Maps each reading (layer, port) to the (layer, port) that it reads."""
    return {
        (edge.get("to-layer"), edge.get("to-port")): (edge.get("from-layer"), edge.get("from-port"))
        for edge in body.iterfind("edges/edge")
    }


def _weight(layer: Element, stored: dict[tuple[str, str], WeightRow]) -> WeightRow | None:
    """Returns the weight of a Const; Consts at one offset in the file share one weight."""
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


def _ports(layer: Element, side: str) -> tuple[TensorFacts, ...]:
    rows = []
    for place, port in enumerate(layer.iterfind(f"{side}/port")):
        names = port.get("names") or layer.get("name", "") + (f":{place}" if place else "")
        sizes = [_whole(dimension.text) for dimension in port.iterfind("dim")]
        shape = tuple(size if size is not None and size >= 0 else None for size in sizes)
        rows.append(TensorFacts(names.split(",")[0], _dtype(port.get("precision")), shape))
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
) -> TensorFacts:
    (port,) = _ports(layer, "input")[:1] or (TensorFacts(layer.get("name", "")),)
    first = layer.find("input/port")
    source = producers.get((layer.get("id"), first.get("id") if first is not None else None))
    return TensorFacts(_source_name(source, layers) or port.name, port.dtype, port.shape)


def _dtype(text: str | None) -> str | None:
    """Returns numpy's name of a type; Consts spell it `f32`, ports FP32."""
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
