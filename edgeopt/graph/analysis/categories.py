"""Categories of operators: a table of all that onnx defines and all that ONNX Runtime adds."""

from enum import StrEnum


class OperatorType(StrEnum):
    MATRIX_PRODUCT = "matrix product"
    CONVOLUTION = "convolution"
    POOLING = "pooling"
    ACTIVATION = "activation"
    NORMALIZATION = "normalization"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    ELEMENT_WISE = "element-wise"
    REDUCTION = "reduction"
    SHAPE = "shape"
    DATA_MOVEMENT = "data movement"
    QUANTIZATION = "quantization"
    CONTROL_FLOW = "control flow"
    TREE_ENSEMBLE = "tree ensemble"
    CLASSIC = "classic machine learning"
    TEXT = "text"
    SEQUENCE = "sequence"
    SIGNAL = "signal"
    RANDOM = "random"
    IMAGE = "image"
    TRAINING = "loss and training"
    CONSTANT = "constant"
    EXPERTS = "mixture of experts"
    GENERATION = "text generation"
    UNKNOWN = "unknown"


HEAVY = frozenset(
    {OperatorType.MATRIX_PRODUCT, OperatorType.CONVOLUTION, OperatorType.ATTENTION, OperatorType.RECURRENT}
)
"""Categories that take most of the run time of most models."""


_T = OperatorType
STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training")
MICROSOFT_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")

_STANDARD = {
    _T.MATRIX_PRODUCT: "MatMul Gemm Einsum MatMulInteger QLinearMatMul Det",
    _T.CONVOLUTION: "Conv ConvTranspose ConvInteger QLinearConv DeformConv CausalConvWithState",
    _T.POOLING: (
        "AveragePool MaxPool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool MaxUnpool MaxRoiPool RoiAlign"
    ),
    _T.ACTIVATION: (
        "Relu LeakyRelu PRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Swish SwiGLU Gelu Mish Softplus "
        "Softsign Tanh ThresholdedRelu Shrink Clip"
    ),
    _T.NORMALIZATION: (
        "BatchNormalization InstanceNormalization LayerNormalization GroupNormalization RMSNormalization LRN "
        "LpNormalization MeanVarianceNormalization Softmax LogSoftmax Hardmax Normalizer"
    ),
    _T.ATTENTION: "Attention RotaryEmbedding FlexAttention LinearAttention",
    _T.RECURRENT: "LSTM GRU RNN",
    _T.ELEMENT_WISE: (
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil "
        "Cos Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Mean Min "
        "Mod Mul Neg Not Or Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Sum Tan Where Xor Binarizer Imputer "
        "Scaler"
    ),
    _T.REDUCTION: (
        "ArgMax ArgMin CumSum CumProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
        "ReduceMin ReduceProd ReduceSum ReduceSumSquare TopK"
    ),
    _T.SHAPE: "Shape Size Reshape Flatten Squeeze Unsqueeze Identity ConstantOfShape Range EyeLike",
    _T.DATA_MOVEMENT: (
        "Cast CastLike BitCast CenterCropPad Compress Concat DepthToSpace SpaceToDepth Expand Gather "
        "GatherElements GatherND NonZero OneHot Pad ReverseSequence Scatter ScatterElements ScatterND Slice "
        "Split TensorScatter Tile Transpose Trilu Unique Dropout ArrayFeatureExtractor FeatureVectorizer "
        "OneHotEncoder"
    ),
    _T.QUANTIZATION: "QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
    _T.CONTROL_FLOW: "If Loop Scan",
    _T.TREE_ENSEMBLE: "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
    _T.CLASSIC: (
        "LinearClassifier LinearRegressor SVMClassifier SVMRegressor CastMap CategoryMapper DictVectorizer "
        "LabelEncoder ZipMap"
    ),
    _T.TEXT: "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    _T.SEQUENCE: (
        "ConcatFromSequence SplitToSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
        "SequenceInsert SequenceLength SequenceMap Optional OptionalGetElement OptionalHasElement"
    ),
    _T.SIGNAL: "DFT STFT BlackmanWindow HammingWindow HannWindow MelWeightMatrix",
    _T.RANDOM: "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    _T.IMAGE: "Resize Upsample GridSample AffineGrid Col2Im ImageDecoder NonMaxSuppression",
    _T.TRAINING: "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss Adagrad Adam Gradient Momentum",
    _T.CONSTANT: "Constant",
}

_MICROSOFT = {
    _T.MATRIX_PRODUCT: (
        "FusedGemm FusedMatMul FusedMatMulActivation TransposeMatMul GemmFastGelu GemmFloat8 MatMulBnb4 "
        "MatMulFpQ4 MatMulNBits MatMulNBitsMlp MatMulNBitsQkv MatMulBlockQuantizedFp4Weight "
        "MatMulBlockQuantizedFp8Weight MatMulInteger16 MatMulIntegerToFloat DynamicQuantizeMatMul QGemm "
        "QOrderedMatMul SparseToDenseMatMul CDist Inverse"
    ),
    _T.CONVOLUTION: (
        "FusedConv NhwcConv NhwcFusedConv ConvTransposeWithDynamicPads QLinearConvTranspose WordConvEmbedding "
        "VarlenCausalConvWithState"
    ),
    _T.POOLING: "MaxpoolWithMask NhwcMaxPool QLinearAveragePool QLinearGlobalAveragePool",
    _T.ACTIVATION: (
        "BiasGelu BiasSplitGelu FastGelu QuickGelu ScaledSiLU QLinearLeakyRelu QLinearSigmoid QOrderedGelu"
    ),
    _T.NORMALIZATION: (
        "SkipLayerNormalization SkipSimplifiedLayerNormalization SimplifiedLayerNormalization GroupNorm "
        "SkipGroupNorm EmbedLayerNormalization QEmbedLayerNormalization QOrderedLayerNormalization BiasSoftmax "
        "QLinearSoftmax BranchwiseRMSNorm GatedRMSNorm"
    ),
    _T.ATTENTION: (
        "MultiHeadAttention GroupQueryAttention DecoderAttention DecoderMaskedMultiHeadAttention "
        "DecoderMaskedSelfAttention LongformerAttention PackedAttention PackedMultiHeadAttention PagedAttention "
        "SparseAttention DynamicSparseAttention SparsePagedAttention SparseAttentionIndexer "
        "PackedSparseAttentionIndexer QAttention QOrderedAttention QOrderedLongformerAttention GatedDeltaNet "
        "LinearAttentionGate GatedRelativePositionBias RelativePositionBias GemmaRotaryEmbedding MRotaryEmbedding"
    ),
    _T.RECURRENT: "AttnLSTM DynamicQuantizeLSTM",
    _T.ELEMENT_WISE: (
        "BiasAdd ComplexMul ComplexMulConj GatedAdd EngramGate MulInteger QLinearAdd QLinearMul QLinearWhere "
        "HyperConnectionPostMix HyperConnectionPreMix"
    ),
    _T.REDUCTION: "IsAllFinite ReduceSumInteger QLinearReduceMean",
    _T.SHAPE: "ExpandDims",
    _T.DATA_MOVEMENT: (
        "QLinearConcat GatherBlockQuantized RemovePadding RestorePadding TorchEmbedding UnfoldTensor ReorderInput "
        "ReorderOutput BiasDropout BitmaskDropout BitmaskBiasDropout"
    ),
    _T.QUANTIZATION: "QuantizeBFP DequantizeBFP QuantizeWithOrder DequantizeWithOrder",
    _T.TEXT: "MurmurHash3 NGramHashMapping NGramRepeatBlock VarlenNGramHashMapping Tokenizer",
    _T.SIGNAL: "Rfft Irfft DynamicTimeWarping",
    _T.IMAGE: "CropAndResize",
    _T.EXPERTS: "MoE QMoE",
    _T.GENERATION: "BeamSearch GreedySearch Sampling WhisperBeamSearch",
    _T.CONTROL_FLOW: "BifurcationDetector",
}


def _by_name(table: dict[OperatorType, str]) -> dict[str, OperatorType]:
    return {name: kind for kind, names in table.items() for name in names.split()}


_OF_STANDARD = _by_name(_STANDARD)
# ONNX Runtime also defines operators with names of ONNX: newer versions, or the same in another layout.
_OF_MICROSOFT = {**_OF_STANDARD, **_by_name(_MICROSOFT)}


def operator_type(operator: str, domain: str = "") -> OperatorType:
    """Returns the category of an operator; UNKNOWN if no table contains its domain and name."""
    if domain in STANDARD_DOMAINS:
        # ONNX Runtime puts this operator into ONNX's domain.
        if operator == "SimplifiedLayerNormalization":
            return OperatorType.NORMALIZATION
        return _OF_STANDARD.get(operator, OperatorType.UNKNOWN)
    return (
        _OF_MICROSOFT.get(operator, OperatorType.UNKNOWN) if domain in MICROSOFT_DOMAINS else OperatorType.UNKNOWN
    )
