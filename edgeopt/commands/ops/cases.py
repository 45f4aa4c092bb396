"""All cases by family, and those of layers: products, windows, normalization, recurrence, attention, int8."""

from collections.abc import Iterator

from edgeopt.commands.ops import elementwise
from edgeopt.commands.ops.case import (
    ALL,
    FLOATS,
    IMAGES,
    TOKENS,
    Attributes,
    OperatorCase,
    Port,
    Precision,
    between,
    fed,
    number,
    spread,
    weights,
)

# Rows, inner size, columns.
_PRODUCTS = ((16, 128, 128), (128, 384, 384), (384, 768, 1024))
_BATCHED = ((4, 16, 32, 16), (12, 128, 64, 128), (24, 256, 64, 256))


def _matrix() -> Iterator[OperatorCase]:
    plain = [[fed(m, k), weights(k, n, fan_in=k)] for m, k, n in _PRODUCTS]
    yield from spread("MatMul", plain, "weights", ALL)
    tokens = [[fed(2, m // 2, k), weights(k, n, fan_in=k)] for m, k, n in _PRODUCTS]
    yield from spread("MatMul", tokens, "batch and weights", ALL)
    row = [[fed(1, k), weights(k, n, fan_in=k)] for k, n in ((128, 128), (768, 768), (1024, 4096))]
    yield from spread("MatMul", row, "one row", ALL)
    batched = [[fed(1, b, m, k), fed(1, b, k, n)] for b, m, k, n in _BATCHED]
    yield from spread("MatMul", batched, "two inputs")
    across = [[fed(m, k), weights(n, k, fan_in=k), weights(n)] for m, k, n in _PRODUCTS]
    yield from spread("Gemm", across, "weights across", ALL, {"transB": 1})
    scaled = [[fed(k, m), weights(k, n, fan_in=k), weights(1, n)] for m, k, n in _PRODUCTS]
    yield from spread("Gemm", scaled, "input across, scaled", attributes={"transA": 1, "alpha": 0.5, "beta": 2.0})


MATRIX: tuple[OperatorCase, ...] = tuple(_matrix())


# Input channels, output channels, height and width.
_CONVOLVED = ((8, 16, 14), (64, 64, 28), (64, 128, 56))
_DEEP = ((16, 16, 14), (96, 96, 28), (192, 192, 56))

# Variant, kernel, groups, attributes, precisions.
_Convolution = tuple[str, int, str, Attributes, tuple[Precision, ...]]
_CONVOLUTIONS: tuple[_Convolution, ...] = (
    ("3x3", 3, "one", {"pads": (1, 1, 1, 1)}, ALL),
    ("1x1", 1, "one", {}, ALL),
    ("depth-wise 3x3", 3, "each", {"pads": (1, 1, 1, 1)}, ALL),
    ("depth-wise 3x3 strided", 3, "each", {"pads": (1, 1, 1, 1), "strides": (2, 2)}, ALL),
    ("depth-wise 5x5", 5, "each", {"pads": (2, 2, 2, 2)}, FLOATS),
    ("3x3 strided", 3, "one", {"pads": (1, 1, 1, 1), "strides": (2, 2)}, ALL),
    ("3x3 dilated", 3, "one", {"pads": (2, 2, 2, 2), "dilations": (2, 2)}, ALL),
    ("3x3 four groups", 3, "four", {"pads": (1, 1, 1, 1)}, ALL),
    ("7x7 strided", 7, "one", {"pads": (3, 3, 3, 3), "strides": (2, 2)}, FLOATS),
    ("3x3 same upper", 3, "one", {"auto_pad": "SAME_UPPER", "strides": (2, 2)}, FLOATS),
)


def _plain_convolutions() -> Iterator[OperatorCase]:
    for variant, kernel, grouping, more, precisions in _CONVOLUTIONS:
        ports, attributes = [], []
        for come, go, side in _DEEP if grouping == "each" else _CONVOLVED:
            groups = {"one": 1, "four": 4, "each": come}[grouping]
            inner = come // groups
            kernels = weights(go, inner, kernel, kernel, fan_in=inner * kernel**2)
            ports.append([fed(1, come, side, side), kernels, weights(go)])
            attributes.append({"kernel_shape": (kernel, kernel), "group": groups, **more})
        yield from spread("Conv", ports, variant, precisions, attributes)
    sizes = ((8, 16, 64), (64, 64, 256), (128, 256, 1024))
    ports = [[fed(1, c, t), weights(g, c, 3, fan_in=c * 3), weights(g)] for c, g, t in sizes]
    yield from spread("Conv", ports, "1-d 3", FLOATS, {"kernel_shape": (3,), "pads": (1, 1)})


def _transposed() -> Iterator[OperatorCase]:
    sizes = ((8, 8, 14), (64, 32, 28), (64, 64, 56))
    for variant, kernel, more in (
        ("2x2 strided", 2, {"strides": (2, 2)}),
        ("4x4 strided", 4, {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("3x3 output padding", 3, {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}),
    ):
        ports = [
            [fed(1, c, s, s), weights(c, g, kernel, kernel, fan_in=c * kernel**2 // 4), weights(g)]
            for c, g, s in sizes
        ]
        attributes: Attributes = {"kernel_shape": (kernel, kernel), **more}
        yield from spread("ConvTranspose", ports, variant, FLOATS, attributes)


CONVOLUTION: tuple[OperatorCase, ...] = (*_plain_convolutions(), *_transposed())


_Pool = tuple[str, str, Attributes, tuple[Precision, ...]]

# Smaller: some runtimes take thirty times as long for these.
_DILATED = ((1, 16, 14, 14), (1, 32, 28, 28), (1, 64, 56, 56))

_POOLS: tuple[_Pool, ...] = (
    ("MaxPool", "2x2", {"kernel_shape": (2, 2), "strides": (2, 2)}, ALL),
    ("MaxPool", "3x3 padded", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}, ALL),
    ("MaxPool", "3x3 ceil", {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}, FLOATS),
    ("MaxPool", "3x3 dilated", {"kernel_shape": (3, 3), "dilations": (2, 2)}, FLOATS),
    ("MaxPool", "5x5 wide", {"kernel_shape": (5, 5), "strides": (1, 1), "pads": (2, 2, 2, 2)}, FLOATS),
    ("AveragePool", "2x2", {"kernel_shape": (2, 2), "strides": (2, 2)}, ALL),
    ("AveragePool", "3x3 padded", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}, FLOATS),
    (
        "AveragePool",
        "3x3 pads count",
        {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "count_include_pad": 1},
        FLOATS,
    ),
    ("GlobalAveragePool", "", {}, ALL),
    ("GlobalMaxPool", "", {}, FLOATS),
)


def _pooling() -> Iterator[OperatorCase]:
    for operator, variant, attributes, precisions in _POOLS:
        ports = [[fed(*shape)] for shape in (_DILATED if "dilations" in attributes else IMAGES)]
        keeps = operator == "MaxPool"
        yield from spread(operator, ports, variant, precisions, attributes, keeps_scale=keeps)


POOLING: tuple[OperatorCase, ...] = tuple(_pooling())


_SCORES = ((1, 4, 16, 16), (1, 12, 128, 128), (2, 12, 256, 256))


def _normalization() -> Iterator[OperatorCase]:
    channels = [
        [fed(*s), between(0.5, 1.5, s[1]), weights(s[1]), weights(s[1]), between(0.5, 2.0, s[1])] for s in IMAGES
    ]
    yield from spread("BatchNormalization", channels, attributes={"epsilon": 1e-5})
    rows = [[fed(*s), between(0.5, 1.5, s[-1]), weights(s[-1])] for s in TOKENS]
    yield from spread("LayerNormalization", rows, "last axis", attributes={"axis": -1, "epsilon": 1e-5})
    whole = [[fed(*s), between(0.5, 1.5, *s[1:])] for s in TOKENS]
    yield from spread("LayerNormalization", whole, "two axes, no shift", attributes={"axis": 1})
    instances = [[fed(*s), between(0.5, 1.5, s[1]), weights(s[1])] for s in IMAGES]
    yield from spread("InstanceNormalization", instances, attributes={"epsilon": 1e-5})
    yield from spread("GroupNormalization", instances, attributes={"num_groups": 4}, opset=21)
    plain = [[fed(*s), between(0.5, 1.5, s[-1])] for s in TOKENS]
    yield from spread("RMSNormalization", plain, attributes={"axis": -1}, opset=23)
    scores = [[fed(*s, low=-6.0, high=6.0)] for s in _SCORES]
    yield from spread("Softmax", scores, "last axis", ALL, {"axis": -1})
    images = [[fed(*s, low=-6.0, high=6.0)] for s in IMAGES]
    yield from spread("Softmax", images, "channels", attributes={"axis": 1})
    yield from spread("LogSoftmax", scores, attributes={"axis": -1})


NORMALIZATION: tuple[OperatorCase, ...] = tuple(_normalization())


# Steps, batch, input size, hidden size.
_SEQUENCES = ((8, 1, 16, 16), (32, 1, 64, 128), (64, 4, 128, 256))


def _recurrent() -> Iterator[OperatorCase]:
    for operator, gates, outputs, more in (("LSTM", 4, 3, {}), ("GRU", 3, 2, {"linear_before_reset": 1})):
        for variant, directions in (("forward", 1), ("bidirectional", 2)):
            ports = [
                [
                    fed(t, b, i),
                    weights(directions, gates * h, i, fan_in=i),
                    weights(directions, gates * h, h, fan_in=h),
                    weights(directions, 2 * gates * h),
                ]
                for t, b, i, h in _SEQUENCES
            ]
            attributes: list[Attributes] = [
                {"hidden_size": h, "direction": variant, **more} for _, _, _, h in _SEQUENCES
            ]
            yield from spread(operator, ports, variant, attributes=attributes, outputs=outputs)
    states = [
        [
            fed(t, b, i),
            weights(1, 4 * h, i, fan_in=i),
            weights(1, 4 * h, h, fan_in=h),
            None,
            None,
            fed(1, b, h),
            fed(1, b, h),
        ]
        for t, b, i, h in _SEQUENCES
    ]
    sizes: list[Attributes] = [{"hidden_size": h} for _, _, _, h in _SEQUENCES]
    yield from spread("LSTM", states, "with state", attributes=sizes, outputs=3)
    resets = [
        [fed(t, b, i), weights(1, 3 * h, i, fan_in=i), weights(1, 3 * h, h, fan_in=h)] for t, b, i, h in _SEQUENCES
    ]
    yield from spread("GRU", resets, "reset first", attributes=sizes, outputs=2)


RECURRENT: tuple[OperatorCase, ...] = tuple(_recurrent())


# Batch, heads, tokens, size of a head.
_HEADS = ((1, 4, 16, 32), (1, 12, 128, 64), (2, 12, 256, 64))
_ATTENTION_OPSET = 23


def _attention() -> Iterator[OperatorCase]:
    plain = [[fed(b, h, t, d) for _ in range(3)] for b, h, t, d in _HEADS]
    yield from spread("Attention", plain, "plain", opset=_ATTENTION_OPSET)
    yield from spread("Attention", plain, "causal", attributes={"is_causal": 1}, opset=_ATTENTION_OPSET)
    masked: list[list[Port]] = [
        [*(fed(b, h, t, d) for _ in range(3)), fed(b, 1, t, t, low=-4.0, high=0.0)] for b, h, t, d in _HEADS
    ]
    yield from spread("Attention", masked, "mask", opset=_ATTENTION_OPSET)
    grouped = [[fed(b, t, h * d), fed(b, t, h // 2 * d), fed(b, t, h // 2 * d)] for b, h, t, d in _HEADS]
    heads: list[Attributes] = [{"q_num_heads": h, "kv_num_heads": h // 2} for _, h, _, _ in _HEADS]
    yield from spread("Attention", grouped, "grouped heads", attributes=heads, opset=_ATTENTION_OPSET)


ATTENTION: tuple[OperatorCase, ...] = tuple(_attention())


# Operators on eight-bit numbers themselves; the int8 cases of other families are operators between DQ and Q.
_INT8: tuple[Precision, ...] = ("int8",)
_3X3: Attributes = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}


def _bytes(*shape: int, dtype: str = "uint8", constant: bool = False) -> Port:
    low, high = (0, 256) if dtype == "uint8" else (-127, 128)
    return Port(shape, low, high, dtype, constant)


def _scale(value: float) -> Port:
    return number(value, "float32")


def _quantized() -> Iterator[OperatorCase]:
    zero, signed_zero = number(128, "uint8"), number(0, "int8")
    floats = [fed(*s, dtype="float32") for s in IMAGES]
    to_bytes = [[x, _scale(0.03), zero] for x in floats]
    to_floats = [[_bytes(*s), _scale(0.03), zero] for s in IMAGES]
    yield from spread("QuantizeLinear", to_bytes, "uint8", _INT8)
    yield from spread("QuantizeLinear", [[x, _scale(0.03), signed_zero] for x in floats], "int8", _INT8)
    yield from spread("DequantizeLinear", to_floats, "uint8", _INT8)
    yield from spread("DynamicQuantizeLinear", [[x] for x in floats], "", _INT8, outputs=3)
    integer = [[_bytes(m, k), _bytes(k, n, dtype="int8", constant=True), zero] for m, k, n in _PRODUCTS]
    yield from spread("MatMulInteger", integer, "", _INT8)
    linear = [
        [
            *(_bytes(m, k), _scale(0.02), zero),
            *(_bytes(k, n, dtype="int8", constant=True), _scale(0.01), signed_zero),
            *(_scale(0.02 * 0.01 * 5000 * k**0.5 / 127 * 4), zero),
        ]
        for m, k, n in _PRODUCTS
    ]
    yield from spread("QLinearMatMul", linear, "", _INT8)
    kernels = [(_bytes(1, c, s, s), _bytes(g, c, 3, 3, dtype="int8", constant=True)) for c, g, s in _CONVOLVED]
    yield from spread("ConvInteger", [[x, w, zero] for x, w in kernels], "", _INT8, _3X3)
    whole = [
        [
            *(x, _scale(0.02), zero, w, _scale(0.01), signed_zero),
            *(_scale(0.02 * 0.01 * 5000 * (9 * w.shape[1]) ** 0.5 / 127 * 4), zero),
        ]
        for x, w in kernels
    ]
    yield from spread("QLinearConv", whole, "", _INT8, _3X3)


QUANTIZED: tuple[OperatorCase, ...] = tuple(_quantized())


FAMILIES: tuple[tuple[str, tuple[OperatorCase, ...]], ...] = (
    ("element-wise", elementwise.ELEMENTWISE),
    ("matrix", MATRIX),
    ("convolution", CONVOLUTION),
    ("pooling", POOLING),
    ("normalization", NORMALIZATION),
    ("reduction", elementwise.REDUCTION),
    ("shape", elementwise.SHAPE),
    ("recurrent", RECURRENT),
    ("attention", ATTENTION),
    ("quantized", QUANTIZED),
)
CASES: tuple[OperatorCase, ...] = tuple(case for _, cases in FAMILIES for case in cases)


def operators() -> tuple[str, ...]:
    """Returns every operator that has cases, in the order of the families."""
    return tuple(dict.fromkeys(case.operator for case in CASES))
