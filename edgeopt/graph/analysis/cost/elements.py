"""Operators whose cost is a number of operations for each element: arithmetic, windows, signals, classic models.

A Fourier transform of n numbers counts as the fast one: 5 n log2 n operations.
"""

from collections import defaultdict
from math import ceil, log2, prod

from edgeopt.graph.analysis.cost.call import NOTHING, Arithmetic, Call, Rule, Unknown, rules


def _each_out(operations: int) -> Rule:
    return lambda call: Arithmetic(0, operations * call.out())


def _each_input(operations: int, out: int = 0) -> Rule:
    return lambda call: Arithmetic(0, operations * call.input_size() + (out * call.out() if out else 0))


def joined(call: Call) -> Arithmetic:
    """Counts one operation fewer than inputs per element, at least one, for Max, Sum and the like."""
    inputs = sum(operand is not None for operand in call.inputs)
    more = call.operator == "Mean"
    return Arithmetic(0, call.out() * (max(1, inputs - 1) + more))


def moved(call: Call) -> Arithmetic:
    del call
    return NOTHING


def with_bias(operations: int) -> Rule:
    """Returns a rule with one more operation per element if there is a second input."""
    return lambda call: Arithmetic(0, call.out() * (operations + call.has(1)))


def skipped_norm(operations: int, bias: int) -> Rule:
    """Returns the rule of a normalization that first adds the skip connection, and a bias if there is one."""
    return lambda call: Arithmetic(0, call.input_size() * (operations + 1 + call.has(bias)))


def drawn(call: Call) -> Arithmetic:
    """Counts one operation for each random number; a choice among classes also sums them up."""
    choices = call.input_size() if call.operator == "Multinomial" else 0
    return Arithmetic(0, call.out() + choices)


def dropped(call: Call) -> Arithmetic:
    """Counts nothing outside training, else two operations per element: a random number and a scaling."""
    training = call.inputs[2] if call.has(2) else None
    if training is None or training.values == (0,):
        return NOTHING
    if training.values is None:
        raise Unknown("whether it is in training mode depends on the data")
    return Arithmetic(0, 2 * call.out())


def updated(operations: int) -> Rule:
    """Returns the rule of an optimizer, whose tensors come in groups after rate and count, parameters first."""

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
    # quantization, and functions of an index
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
    """Counts operations only if values are added to or compared with existing ones."""
    place = 2 if call.operator in {"ScatterND", "ScatterElements"} else 0
    return NOTHING if call.text("reduction", "none") == "none" else Arithmetic(0, call.input(place).count())


def scaled_and_shifted(call: Call) -> Arithmetic:
    """Counts two operations per element (scale and shift), or seven in training mode."""
    return Arithmetic(0, (2 if not call.whole("training_mode") else 7) * call.out())


def neighbours(call: Call) -> Arithmetic:
    """Counts LRN: the squares of its window of channels, and scale, shift, power and quotient."""
    return Arithmetic(0, call.input_size() * (2 * call.whole("size", 1) + 4))


def embedded(call: Call) -> Arithmetic:
    """Counts the sum of up to three table rows, and the normalization."""
    tables = sum(call.has(place) for place in (2, 3, 4))
    return Arithmetic(0, call.out() * (5 + max(0, tables - 1)))


def pooled(call: Call) -> Arithmetic:
    return Arithmetic(0, call.out() * prod(call.wholes("kernel_shape") or (1,)))


def pooled_by_norm(call: Call) -> Arithmetic:
    """Counts a power and a sum for each element, and one root for each result."""
    return Arithmetic(0, call.out() * (2 * prod(call.wholes("kernel_shape") or (1,)) + 1))


def of_regions(call: Call) -> Arithmetic:
    """Counts the samples of each cell along both sides; each sample interpolates four neighbours."""
    samples = call.whole("sampling_ratio")
    if samples < 1:
        raise Unknown("the number of samples of a region depends on its size, so on the data")
    return Arithmetic(4 * call.out() * samples * samples)


def resized(call: Call) -> Arithmetic:
    """Counts two (linear) or four (cubic) neighbours along each resized axis; nearest counts nothing."""
    mode = call.text("mode", "nearest")
    if mode == "nearest":
        return NOTHING
    before, after = call.shape(0), call.output().known_shape()
    changed = sum(old != new for old, new in zip(before, after, strict=False))
    return Arithmetic(call.out() * (4 if mode == "cubic" else 2) ** changed) if changed else NOTHING


def sampled(call: Call) -> Arithmetic:
    """Counts interpolation at coordinates from a second input; scaling each coordinate is one operation."""
    mode, places = call.text("mode", "linear"), call.input(1).count()
    axes = max(1, len(call.shape(0)) - 2)
    neighbours = {"nearest": 0, "cubic": 4**axes, "bicubic": 4**axes}.get(mode, 2**axes)
    return Arithmetic(call.out() * neighbours, places)


def cropped(call: Call) -> Arithmetic:
    return NOTHING if call.text("mode", "bilinear") == "nearest" else Arithmetic(4 * call.out())


def affine_grid(call: Call) -> Arithmetic:
    """Counts the product of each grid position with a matrix that has a column for the shift."""
    return Arithmetic(call.out() * call.axis(0, -1))


def of_data(call: Call) -> Arithmetic:
    raise Unknown(
        "the number of compared boxes depends on the data"
        if call.operator == "NonMaxSuppression"
        else "the number of elements in a region depends on the data"
    )


def _fourier(length: int) -> int:
    return ceil(5 * length * log2(length)) if length > 1 else 1


def _constant(call: Call, position: int) -> int:
    values = call.input(position).values
    if not values:
        raise Unknown(
            f"'{call.input(position).name}' determines the amount of computation and is known only at run time"
        )
    return int(values[0])


def transform(call: Call) -> Arithmetic:
    """Counts a Fourier transform; a one-sided transform costs half."""
    shape = call.shape(0)
    axis = call.whole("axis", 1)
    if call.has(2):
        axis = _constant(call, 2)
    if not -len(shape) <= axis < len(shape):
        raise Unknown(f"its axis {axis} is outside the {len(shape)} axes of its input")
    length = _constant(call, 1) if call.has(1) else shape[axis]
    transforms = prod(shape[:-1]) // max(1, shape[axis])
    return Arithmetic(0, transforms * _fourier(length) // (2 if call.whole("onesided") else 1))


def short_time(call: Call) -> Arithmetic:
    """Counts the window and the Fourier transform of each frame."""
    out = call.output().known_shape()
    length = call.axis(2, 0) if call.has(2) else _constant(call, 3)
    frames = prod(out[:-2])
    return Arithmetic(0, frames * (length + _fourier(length) // (2 if call.whole("onesided", 1) else 1)))


def along_last(call: Call) -> Arithmetic:
    """Counts ONNX Runtime's Rfft and Irfft over the last `signal_ndim` axes."""
    shape = call.shape(0) if call.operator == "Rfft" else call.output().known_shape()
    length = prod(shape[-max(1, call.whole("signal_ndim", 1)) :])
    return Arithmetic(0, prod(shape) // max(1, length) * _fourier(length) // 2)


def window(call: Call) -> Arithmetic:
    """Counts the cosines of a window, two for Blackman's, else one, each with an angle, a product and a sum."""
    return Arithmetic(0, call.out() * (7 if call.operator == "BlackmanWindow" else 4))


def _rows(call: Call) -> int:
    shape = call.shape(0)
    return shape[0] if len(shape) > 1 else 1


def _length(call: Call, name: str) -> int:
    value = call.attributes.get(name)
    return len(value) if isinstance(value, tuple) else 0


def linear(call: Call) -> Arithmetic:
    """Counts the product of each row of features with all coefficients."""
    return Arithmetic(_rows(call) * _length(call, "coefficients"))


def support_vectors(call: Call) -> Arithmetic:
    """Counts a kernel for each support vector, then the coefficients."""
    vectors, coefficients = _length(call, "support_vectors"), _length(call, "coefficients")
    return Arithmetic(_rows(call) * (vectors + coefficients))


def forest(call: Call) -> Arithmetic:
    """Counts one comparison for each node on the path to the nearest leaf of each tree."""
    trees, nodes = call.wholes("nodes_treeids"), call.wholes("nodes_nodeids")
    yes, no = call.wholes("nodes_truenodeids"), call.wholes("nodes_falsenodeids")
    modes = call.attributes.get("nodes_modes")
    if trees is None or nodes is None or yes is None or no is None or not isinstance(modes, tuple):
        raise Unknown("its trees cannot be read")
    after: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    roots: dict[int, int] = {}
    for tree, node, left, right, mode in zip(trees, nodes, yes, no, modes, strict=False):
        roots.setdefault(tree, node)
        if mode != "LEAF":
            after[tree][node] = left, right
    return Arithmetic(0, _rows(call) * sum(_nearest_leaf(after[tree], root) for tree, root in roots.items()))


def ensemble(call: Call) -> Arithmetic:
    """Counts comparisons for the newer form of ensembles, whose children are nodes, or leaves if a flag says
    so."""
    roots, yes, no = call.wholes("tree_roots"), call.wholes("nodes_truenodeids"), call.wholes("nodes_falsenodeids")
    yes_leaf, no_leaf = call.wholes("nodes_trueleafs"), call.wholes("nodes_falseleafs")
    if roots is None or yes is None or no is None or yes_leaf is None or no_leaf is None:
        raise Unknown("its trees cannot be read")
    after = {
        node: (-1 if yes_leaf[node] else yes[node], -1 if no_leaf[node] else no[node]) for node in range(len(yes))
    }
    return Arithmetic(0, _rows(call) * sum(_nearest_leaf(after, root) for root in roots))


def _nearest_leaf(after: dict[int, tuple[int, int]], root: int) -> int:
    """Returns the number of comparisons on the shortest path to a leaf, by breadth-first search."""
    level, depth, seen = {root}, 0, set[int]()
    while level and all(node in after for node in level):
        seen |= level
        level = {child for node in level for child in after[node]} - seen
        depth += 1
    return depth


RULES: dict[str, Rule] = {
    **rules(_ONE, _each_out(1)),
    **rules(_MOVES, moved),
    **rules("Max Min Sum Mean", joined),
    **rules("Scatter ScatterElements ScatterND", scattered),
    "Dropout": dropped,
    **rules("Scaler GatedAdd SwiGLU BiasGelu", _each_out(2)),
    # A complex product is four products and two sums for two real numbers.
    **rules("ComplexMul ComplexMulConj BiasSplitGelu", _each_out(3)),
    "FastGelu": with_bias(1),
    **rules("QLinearAdd QLinearMul", _each_out(4)),
    "BatchNormalization": scaled_and_shifted,
    # The maximum or the mean, the difference, a function of it, the sum, the quotient.
    **rules(
        "InstanceNormalization LayerNormalization GroupNormalization GroupNorm RMSNormalization Softmax "
        "LogSoftmax SimplifiedLayerNormalization LpNormalization MeanVarianceNormalization Hardmax Normalizer "
        "QLinearSoftmax QOrderedLayerNormalization SoftmaxCrossEntropyLoss",
        _each_input(5),
    ),
    "BiasSoftmax": _each_input(6),
    "SkipLayerNormalization": skipped_norm(5, 4),
    "SkipSimplifiedLayerNormalization": skipped_norm(5, 3),
    "SkipGroupNorm": skipped_norm(5, 4),
    "EmbedLayerNormalization": embedded,
    "LRN": neighbours,
    **rules(
        "ReduceMax ReduceMin ReduceSum ReduceProd ReduceSumInteger ArgMax ArgMin CumSum CumProd", _each_input(1)
    ),
    **rules("ReduceMean ReduceLogSum", _each_input(1, 1)),
    **rules("ReduceL1 ReduceSumSquare", _each_input(2)),
    **rules("ReduceL2 ReduceLogSumExp", _each_input(2, 1)),
    # Each element is dequantized and summed, and the results are quantized.
    "QLinearReduceMean": _each_input(2, 2),
    # Each element is compared at least once.
    **rules("TopK Unique", _each_input(1)),
    # The maximum and the minimum come first.
    "DynamicQuantizeLinear": _each_input(3),
    **rules("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli", drawn),
    "NegativeLogLikelihoodLoss": lambda call: Arithmetic(0, 2 * call.input(1).count()),
    "Momentum": updated(5),
    "Adagrad": updated(7),
    "Adam": updated(12),
    # Windows.
    **rules("AveragePool MaxPool NhwcMaxPool MaxpoolWithMask QLinearAveragePool", pooled),
    "LpPool": pooled_by_norm,
    **rules("GlobalAveragePool GlobalMaxPool QLinearGlobalAveragePool Col2Im", _each_input(1)),
    "GlobalLpPool": _each_input(2, 1),
    "MaxUnpool": moved,
    "RoiAlign": of_regions,
    **rules("Resize Upsample", resized),
    "GridSample": sampled,
    "CropAndResize": cropped,
    "AffineGrid": affine_grid,
    **rules("MaxRoiPool NonMaxSuppression", of_data),
    # Signals.
    "DFT": transform,
    "STFT": short_time,
    **rules("Rfft Irfft", along_last),
    **rules("HannWindow HammingWindow BlackmanWindow", window),
    "MelWeightMatrix": _each_out(1),
    # Classic machine learning.
    **rules("LinearClassifier LinearRegressor", linear),
    **rules("SVMClassifier SVMRegressor", support_vectors),
    **rules("TreeEnsembleClassifier TreeEnsembleRegressor", forest),
    "TreeEnsemble": ensemble,
}
