"""What goes number by number: how many operations for each element that comes out, or goes in."""

from collections.abc import Callable

from edgeopt.graph.analysis.cost.call import NOTHING, Arithmetic, Call, Unknown

Rule = Callable[[Call], Arithmetic]


def _each_out(operations: int) -> Rule:
    return lambda call: Arithmetic(0, operations * call.out())


def _each_given(operations: int, out: int = 0) -> Rule:
    return lambda call: Arithmetic(0, operations * call.given() + (out * call.out() if out else 0))


def joined(call: Call) -> Arithmetic:
    """Max, Sum and the like take any number of inputs: one operation fewer than those, and at least one."""
    inputs = sum(operand is not None for operand in call.inputs)
    more = call.operator == "Mean"
    return Arithmetic(0, call.out() * (max(1, inputs - 1) + more))


def moved(call: Call) -> Arithmetic:
    del call
    return NOTHING


def with_bias(operations: int) -> Rule:
    """One more for each element where there is a second input."""
    return lambda call: Arithmetic(0, call.out() * (operations + call.has(1)))


def skipped_norm(operations: int, bias: int) -> Rule:
    """What skips a layer is added first, and a bias where there is one."""
    return lambda call: Arithmetic(0, call.given() * (operations + 1 + call.has(bias)))


def drawn(call: Call) -> Arithmetic:
    """One operation a number that is drawn; a choice among classes adds them up first."""
    choices = call.given() if call.operator == "Multinomial" else 0
    return Arithmetic(0, call.out() + choices)


def dropped(call: Call) -> Arithmetic:
    """Nothing happens outside of training: then two operations, as numbers are drawn and the rest is scaled."""
    training = call.inputs[2] if call.has(2) else None
    if training is None or training.values == (0,):
        return NOTHING
    if training.values is None:
        raise Unknown("whether it is in training mode depends on the data")
    return Arithmetic(0, 2 * call.out())


def updated(operations: int) -> Rule:
    """Optimizers: the tensors come in groups after the rate and the count, parameters first."""

    def rule(call: Call) -> Arithmetic:
        tensors = {"Adam": 4, "Momentum": 3, "Adagrad": 3}[call.operator]
        parameters = call.inputs[2 : 2 + (len(call.inputs) - 2) // tensors]
        return Arithmetic(0, operations * sum(operand.count() for operand in parameters if operand))

    return rule


_ONE = (
    # functions of one or two numbers
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Cos "
    "Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Mod Mul MulInteger "
    "Neg Not Or Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Tan Where Xor Binarizer Imputer BiasAdd "
    "LabelEncoder "
    # activations
    "Relu LeakyRelu PRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Swish Gelu Mish Softplus Softsign Tanh "
    "ThresholdedRelu Shrink Clip QuickGelu ScaledSiLU QLinearLeakyRelu QLinearSigmoid "
    # quantization, and what makes numbers from an index
    "QuantizeLinear DequantizeLinear QLinearConcat QLinearWhere MurmurHash3 IsAllFinite Range GatherBlockQuantized"
)
_MOVES = (
    "Reshape Flatten Squeeze Unsqueeze ExpandDims Identity Constant ConstantOfShape Shape Size EyeLike Cast "
    "CastLike BitCast CenterCropPad Compress Concat DepthToSpace SpaceToDepth Expand Gather GatherElements "
    "GatherND NonZero OneHot Pad ReverseSequence Slice Split TensorScatter Tile Transpose Trilu "
    "ArrayFeatureExtractor TorchEmbedding FeatureVectorizer OneHotEncoder SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceErase SequenceInsert SequenceLength ConcatFromSequence SplitToSequence Optional "
    "OptionalGetElement OptionalHasElement UnfoldTensor ReorderInput ReorderOutput RemovePadding RestorePadding "
    "CastMap CategoryMapper DictVectorizer ZipMap"
)


def scattered(call: Call) -> Arithmetic:
    """Moves, unless existing values are added to or compared with."""
    place = 2 if call.operator in {"ScatterND", "ScatterElements"} else 0
    return NOTHING if call.text("reduction", "none") == "none" else Arithmetic(0, call.input(place).count())


def scaled_and_shifted(call: Call) -> Arithmetic:
    """Outside of training what scales and what shifts are constants: two operations."""
    return Arithmetic(0, (2 if not call.whole("training_mode") else 7) * call.out())


def neighbours(call: Call) -> Arithmetic:
    """LRN: the squares of its window of channels, and scale, shift, power and quotient."""
    return Arithmetic(0, call.given() * (2 * call.whole("size", 1) + 4))


def over_classes(call: Call) -> Arithmetic:
    return Arithmetic(0, 5 * call.given())


def summed_over(call: Call) -> Arithmetic:
    """QLinearReduceMean and the like: each is brought back, added up, and the results quantized."""
    return Arithmetic(0, 2 * call.given() + 2 * call.out())


def unsorted(call: Call) -> Arithmetic:
    """At least each is compared once."""
    return Arithmetic(0, call.given())


def embedded(call: Call) -> Arithmetic:
    """Up to three rows of tables are added before the norm."""
    tables = sum(call.has(place) for place in (2, 3, 4))
    return Arithmetic(0, call.out() * (5 + max(0, tables - 1)))


RULES: dict[str, Rule] = {
    **dict.fromkeys(_ONE.split(), _each_out(1)),
    **dict.fromkeys(_MOVES.split(), moved),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), joined),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), scattered),
    "Dropout": dropped,
    "Scaler": _each_out(2),
    "GatedAdd": _each_out(2),
    # a product of complex numbers is four products and two sums, for each two real numbers
    **dict.fromkeys(("ComplexMul", "ComplexMulConj"), _each_out(3)),
    "SwiGLU": _each_out(2),
    "BiasGelu": _each_out(2),
    "BiasSplitGelu": _each_out(3),
    "FastGelu": with_bias(1),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _each_out(4)),
    "BatchNormalization": scaled_and_shifted,
    # the largest or the mean, the difference, a function of it, the sum, the quotient
    **dict.fromkeys(
        (
            *(
                "InstanceNormalization",
                "LayerNormalization",
                "GroupNormalization",
                "GroupNorm",
                "RMSNormalization",
            ),
            *(
                "SimplifiedLayerNormalization",
                "LpNormalization",
                "MeanVarianceNormalization",
                "Softmax",
                "LogSoftmax",
            ),
            *("Hardmax", "Normalizer", "QLinearSoftmax", "QOrderedLayerNormalization"),
        ),
        over_classes,
    ),
    "BiasSoftmax": _each_given(6),
    "SkipLayerNormalization": skipped_norm(5, 4),
    "SkipSimplifiedLayerNormalization": skipped_norm(5, 3),
    "SkipGroupNorm": skipped_norm(5, 4),
    "EmbedLayerNormalization": embedded,
    "LRN": neighbours,
    **dict.fromkeys(
        ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceSumInteger", "ArgMax", "ArgMin", "CumSum"),
        _each_given(1),
    ),
    "CumProd": _each_given(1),
    "ReduceMean": _each_given(1, 1),
    **dict.fromkeys(("ReduceL1", "ReduceSumSquare"), _each_given(2)),
    "ReduceLogSum": _each_given(1, 1),
    **dict.fromkeys(("ReduceL2", "ReduceLogSumExp"), _each_given(2, 1)),
    "QLinearReduceMean": summed_over,
    **dict.fromkeys(("TopK", "Unique"), unsorted),
    # the largest and the smallest first
    "DynamicQuantizeLinear": _each_given(3),
    **dict.fromkeys(
        (
            *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
            *("Multinomial", "Bernoulli"),
        ),
        drawn,
    ),
    "SoftmaxCrossEntropyLoss": over_classes,
    "NegativeLogLikelihoodLoss": lambda call: Arithmetic(0, 2 * call.input(1).count()),
    "Momentum": updated(5),
    "Adagrad": updated(7),
    "Adam": updated(12),
}
