"""OpenVINO's layers in the words of ONNX's operators, whose rules then tell what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgeopt.graph.analysis.categories import OperatorType, operator_type
from edgeopt.graph.analysis.cost.call import Attribute, Call, Operand

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
    """A layer whose type ONNX has no word for keeps its own, so that no rule fits it."""
    given = list(inputs)
    if kind.startswith("Group") and "Convolution" in kind and len(given) > 1:
        given[1] = _without_groups(given[1])
    if kind in _WEIGHTS and len(given) > _WEIGHTS[kind][1]:
        weights, recurrent = _WEIGHTS[kind]
        given = [given[0], given[weights], given[recurrent]]
    if kind == "ScaledDotProductAttention":
        given = given[:3]
    return Call(IN_ONNX.get(kind, kind), tuple(given), tuple(outputs), attributes=_attributes(data))


def _without_groups(weights: Operand | None) -> Operand | None:
    """They come as [groups, channels of one, ...]; the rules ask what one element takes, as ONNX keeps them."""
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
