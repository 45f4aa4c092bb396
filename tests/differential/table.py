"""The operators of random graphs: each with how its operands and attributes are drawn."""

from collections.abc import Callable
from typing import NamedTuple

from tests.differential import choosing, elementwise, layers, patterns, quantized, shaping, turns
from tests.differential.growing import Graph


class Operator(NamedTuple):
    kind: str
    grow: Callable[[Graph, str], None]
    since: int = 13
    """The first opset that has it."""


def _all(kinds: str, grow: Callable[[Graph, str], None], since: int = 13) -> tuple[Operator, ...]:
    return tuple(Operator(kind, grow, since) for kind in kinds.split())


ELEMENTWISE = (
    *_all("Relu Abs Neg Exp Sigmoid Tanh Erf Softplus Softsign Selu Sin Cos Atan Sign", elementwise.unary),
    *_all("Ceil Floor Round HardSigmoid LeakyRelu Elu Celu ThresholdedRelu IsNaN IsInf", elementwise.unary),
    *_all("HardSwish", elementwise.unary, 14),
    *_all("Mish", elementwise.unary, 18),
    *_all("Gelu", elementwise.unary, 20),
    *_all("Relu Abs Neg Floor Sigmoid", elementwise.twice),
    *_all("Log Sqrt Reciprocal", elementwise.guarded),
    *_all("Add Sub Mul Div Add Sub Mul Div Mod", elementwise.binary),
    *_all("Add Mul Sub Div Min Max", elementwise.chained),
    *_all("Max Min Sum Mean", elementwise.several),
    *_all("Pow", elementwise.power),
    *_all("Clip Clip", elementwise.clip),
    *_all("PRelu", elementwise.prelu),
    *_all("Equal Greater Less GreaterOrEqual LessOrEqual", elementwise.compared),
    *_all("And Or Xor Not", elementwise.logical),
    *_all("Where", elementwise.where),
    *_all("Cast Cast", elementwise.cast),
    *_all("CastLike", elementwise.cast_like, 15),
    *_all("Identity", elementwise.copied),
)

SHAPING = (
    *_all("Reshape Reshape Reshape", shaping.reshape),
    *_all("Flatten", shaping.flatten),
    *_all("Unsqueeze Squeeze", shaping.unsqueeze),
    *_all("Transpose Transpose Transpose", shaping.transpose),
    *_all("Concat", shaping.concat),
    *_all("Split", shaping.split),
    *_all("Slice Slice", shaping.cut),
    *_all("Gather", shaping.gather),
    *_all("GatherElements ScatterElements", shaping.gather_elements),
    *_all("GatherND ScatterND", shaping.gather_nd),
    *_all("Pad", shaping.pad),
    *_all("Tile", shaping.tile),
    *_all("Expand", shaping.expand),
    *_all("Shape Size ConstantOfShape Range", shaping.shape_of),
    *_all("CumSum ArgMax ArgMin TopK LpNormalization Softmax Softmax LogSoftmax", shaping.along),
    *_all("Trilu", shaping.along, 14),
    *_all("OneHot", shaping.one_hot),
    *_all("ReduceMean ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2", shaping.reduction),
    *_all("ReduceLogSum ReduceLogSumExp ReduceSumSquare", shaping.reduction),
)

LAYERS = (
    *_all("Conv Conv Conv Conv ConvTranspose", layers.convolution),
    *_all("MaxPool AveragePool", layers.pooling),
    *_all("GlobalAveragePool GlobalMaxPool", layers.whole_picture),
    *_all("BatchNormalization InstanceNormalization LRN", layers.normalized),
    *_all("LayerNormalization", layers.normalized, 17),
    *_all("Resize", layers.resized),
    *_all("DepthToSpace SpaceToDepth", layers.blocks),
    *_all("MatMul MatMul MatMul MatMul", layers.product),
    *_all("Gemm Gemm", layers.gemm),
    *_all("Einsum", layers.einsum),
    *_all("Dropout", layers.dropped),
    *_all("ReverseSequence", layers.reversed_sequence),
    *_all("GRU LSTM RNN", layers.recurrent),
)

QUANTIZED = (
    *_all("QuantizeLinear QuantizeLinear", quantized.quantize),
    *_all("DequantizeLinear", quantized.dequantized_weight),
    *_all("DynamicQuantizeLinear MatMulInteger", quantized.dynamic),
    *_all("QLinearMatMul QLinearConv ConvInteger", quantized.quantized_layer),
)

CHOOSING = (*_all("If If If", choosing.choice), *_all("Loop Loop", choosing.loop))

# They are no operators of onnx in every opset, but several nodes that mean one.
PATTERNS = (
    *_all("Gelu", patterns.gelu),
    *_all("Gelu", patterns.tanh_gelu),
    *_all("Swish", patterns.swish),
    *_all("HardSwish", patterns.hard_swish),
    *_all("Mish", patterns.mish),
    *_all("LayerNormalization LayerNormalization", patterns.normalization),
    *_all("Softmax", patterns.spelled_softmax),
    *_all("Attention Attention", patterns.attention),
    *_all("Focus", patterns.focus),
    *_all("EqualBranches", patterns.equal_branches),
    *_all("AlikeWeights AlikeWeights", patterns.alike_weights),
)

OPERATORS: tuple[Operator, ...] = (*ELEMENTWISE, *SHAPING, *LAYERS, *QUANTIZED, *CHOOSING)
"""One that stands there several times is drawn more often."""

STEPS: tuple[Operator, ...] = (*OPERATORS, *PATTERNS)

WITH_SHUFFLES: tuple[Operator, ...] = (*STEPS, *_all("ChannelShuffle", patterns.channel_shuffle))
"""For graphs in OpenVINO; the bytes of others mean what they meant before it was there."""

TURNING = (
    *_all("Loop Loop Loop Loop", turns.collecting),
    *_all("Scan Scan Scan", turns.scanning),
    *_all("Loop", choosing.loop),
    *_all("If If", choosing.choice),
    *_all("TopK ConstantOfShape Range Tile Slice Pad", turns.counted),
    *_all("NonZero Compress", turns.found),
)
"""What runs or takes as often as an input says; for graphs of their own."""

WITH_TURNS: tuple[Operator, ...] = (*TURNING, *TURNING, *TURNING, *ELEMENTWISE, *SHAPING)

SIMPLE = frozenset(
    {
        "Relu",
        "Neg",
        "Tanh",
        "Abs",
        "Sigmoid",
        "Add",
        "Mul",
        "Sub",
        "Clip",
        "Max",
        "Min",
        "Where",
        "Cast",
        "Identity",
        "Concat",
        "Slice",
        "Softmax",
        "Sqrt",
    }
)
"""What the branches of an If are made of."""
