"""Cases of operators that go number by number, reduce, or move numbers."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import (
    ALL,
    FLOATS,
    IMAGES,
    OPSET,
    TOKENS,
    Attributes,
    Number,
    OperatorCase,
    Port,
    Precision,
    fed,
    number,
    numbers,
    spread,
    weights,
)

_Unary = tuple[str, str, tuple[float, float] | None, Attributes, tuple[Precision, ...], int]

# Operator, variant, range of the input (None: normal), attributes, precisions, opset.
_UNARY: tuple[_Unary, ...] = (
    ("Sqrt", "", (0.0, 4.0), {}, FLOATS, OPSET),
    ("Exp", "", (-4.0, 4.0), {}, FLOATS, OPSET),
    ("Log", "", (0.1, 10.0), {}, FLOATS, OPSET),
    ("Neg", "", None, {}, FLOATS, OPSET),
    ("Abs", "", None, {}, FLOATS, OPSET),
    ("Reciprocal", "", (0.5, 4.0), {}, FLOATS, OPSET),
    ("Erf", "", None, {}, FLOATS, OPSET),
    ("Floor", "", (-8.0, 8.0), {}, FLOATS, OPSET),
    ("Sin", "", (-6.0, 6.0), {}, FLOATS, OPSET),
    ("Cos", "", (-6.0, 6.0), {}, FLOATS, OPSET),
    ("Relu", "", None, {}, ALL, OPSET),
    ("LeakyRelu", "", None, {"alpha": 0.1}, ALL, OPSET),
    ("Elu", "", None, {"alpha": 1.5}, FLOATS, OPSET),
    ("Sigmoid", "", (-8.0, 8.0), {}, ALL, OPSET),
    ("Tanh", "", (-4.0, 4.0), {}, ALL, OPSET),
    ("Softplus", "", (-8.0, 8.0), {}, FLOATS, OPSET),
    ("HardSigmoid", "", (-4.0, 4.0), {"alpha": 1 / 6, "beta": 0.5}, FLOATS, OPSET),
    ("HardSwish", "", (-4.0, 4.0), {}, ALL, OPSET),
    ("Mish", "", (-8.0, 8.0), {}, FLOATS, OPSET),
    ("Gelu", "exact", (-4.0, 4.0), {"approximate": "none"}, FLOATS, 20),
    ("Gelu", "tanh", (-4.0, 4.0), {"approximate": "tanh"}, FLOATS, 20),
    ("Swish", "", (-8.0, 8.0), {"alpha": 1.0}, FLOATS, 24),
    ("Swish", "alpha 1.5", (-4.0, 4.0), {"alpha": 1.5}, FLOATS, 24),
)


def _unary() -> Iterator[OperatorCase]:
    for operator, variant, span, attributes, precisions, opset in _UNARY:
        low, high = span or (None, None)
        ports = [[fed(*shape, low=low, high=high)] for shape in IMAGES]
        yield from spread(operator, ports, variant, precisions, attributes, opset=opset)


def _binary() -> Iterator[OperatorCase]:
    for operator in ("Add", "Sub", "Mul", "Div"):
        precisions = FLOATS if operator == "Div" else ALL

        def second(*shape: int, constant: bool = False, operator: str = operator) -> Port:
            low, high = (0.5, 2.0) if operator == "Div" else (None, None)
            return Port(shape, low, high, constant=constant)

        yield from spread(operator, [[fed(*s), second(*s)] for s in IMAGES], "two inputs", precisions)
        by_channel = [[fed(*s), second(1, s[1], 1, 1, constant=True)] for s in IMAGES]
        yield from spread(operator, by_channel, "by channel", precisions)
        last = [[fed(*s), second(s[-1], constant=True)] for s in TOKENS]
        yield from spread(operator, last, "last axis", FLOATS)
    for operator in ("Max", "Min"):
        yield from spread(operator, [[fed(*s), fed(*s)] for s in IMAGES])


def _other_elementwise() -> Iterator[OperatorCase]:
    limits = (number(-0.5), number(0.75))
    yield from spread("Clip", [[fed(*s), *limits] for s in IMAGES], "both limits", ALL)
    yield from spread("Clip", [[fed(*s), limits[0]] for s in IMAGES], "lower limit")
    yield from spread("Clip", [[fed(*s), None, limits[1]] for s in IMAGES], "upper limit")
    yield from spread("Pow", [[fed(*s), number(2.0)] for s in IMAGES], "square")
    yield from spread("Pow", [[fed(*s, low=0.1, high=4.0), number(0.5)] for s in IMAGES], "root")
    general = [[fed(*s, low=0.1, high=3.0), fed(*s, low=-2.0, high=2.0)] for s in IMAGES]
    yield from spread("Pow", general, "two inputs")
    yield from spread("PRelu", [[fed(*s), weights(s[1], 1, 1)] for s in IMAGES])
    chosen = [[fed(*s, low=0, high=2, dtype="bool"), fed(*s), fed(*s)] for s in IMAGES]
    yield from spread("Where", chosen, "two inputs")
    masked = [[fed(s[0], 1, 1, s[-1], low=0, high=2, dtype="bool"), fed(*s), number(-10000.0)] for s in IMAGES]
    yield from spread("Where", masked, "mask")


ELEMENTWISE: tuple[OperatorCase, ...] = (*_unary(), *_binary(), *_other_elementwise())


def _reduction() -> Iterator[OperatorCase]:
    for operator in ("ReduceMean", "ReduceSum", "ReduceMax"):
        last = [[fed(*s), numbers(-1)] for s in TOKENS]
        yield from spread(operator, last, "last axis")
        spatial = [[fed(*s), numbers(2, 3)] for s in IMAGES]
        yield from spread(operator, spatial, "height and width", attributes={"keepdims": 0})
    channels = [[fed(*s), numbers(1)] for s in IMAGES]
    yield from spread("ReduceMean", channels, "channels")
    yield from spread("ReduceSum", [[fed(*s)] for s in TOKENS], "all", attributes={"keepdims": 0})
    yield from spread("ReduceL2", [[fed(*s), numbers(-1)] for s in TOKENS], "last axis")
    yield from spread("ArgMax", [[fed(*s)] for s in TOKENS], attributes={"axis": -1, "keepdims": 0})


REDUCTION: tuple[OperatorCase, ...] = tuple(_reduction())


_TABLES = ((100, 64, 8), (8192, 256, 128), (16384, 384, 512))
"""Rows of a table, their width, how many are looked up."""

# To, from, the range of the numbers; ONNX does not say what becomes of those that do not fit.
_CASTS: tuple[tuple[str, str, tuple[Number, Number]], ...] = (
    ("float16", "float32", (-100.0, 100.0)),
    ("float32", "float16", (-100.0, 100.0)),
    ("int32", "float32", (-1000.0, 1000.0)),
    ("int64", "float32", (-1000.0, 1000.0)),
    ("int8", "float32", (-128.0, 128.0)),
    ("uint8", "float32", (0.0, 256.0)),
    ("bool", "float32", (0, 2)),
    ("float32", "int32", (-1000, 1000)),
    ("float32", "int64", (-1000, 1000)),
    ("float32", "uint8", (0, 256)),
    ("float32", "int8", (-128, 128)),
    ("float32", "bool", (0, 2)),
    ("int32", "int64", (-1000, 1000)),
    ("int64", "int32", (-1000, 1000)),
)
_ONNX_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}

# Variant, mode, how coordinates correspond, rounding, scale, what else.
_RESIZES: tuple[tuple[str, str, str, str, float], ...] = (
    ("nearest x2", "nearest", "asymmetric", "floor", 2.0),
    ("nearest x2 half pixel", "nearest", "half_pixel", "round_prefer_floor", 2.0),
    ("nearest x0.5", "nearest", "asymmetric", "floor", 0.5),
    ("nearest x1.5 ceil", "nearest", "half_pixel", "ceil", 1.5),
    ("linear x2", "linear", "half_pixel", "", 2.0),
    ("linear x2 PyTorch", "linear", "pytorch_half_pixel", "", 2.0),
    ("linear x2 aligned corners", "linear", "align_corners", "", 2.0),
    ("linear x2 asymmetric", "linear", "asymmetric", "", 2.0),
    ("linear x0.5", "linear", "half_pixel", "", 0.5),
    ("cubic x2", "cubic", "half_pixel", "", 2.0),
)
_RESIZED = ((1, 8, 14, 14), (1, 32, 28, 28), (1, 64, 56, 56))


def _moves() -> Iterator[OperatorCase]:
    flat = [[fed(*s), numbers(s[0], -1)] for s in IMAGES]
    yield from spread("Reshape", flat, "", ALL, keeps_scale=True)
    yield from spread("Flatten", [[fed(*s)] for s in IMAGES], attributes={"axis": 1})
    rows: tuple[tuple[str, Attributes], ...] = (
        ("channels last", {"perm": (0, 2, 3, 1)}),
        ("heads", {"perm": (0, 2, 1, 3)}),
        ("last two", {"perm": (0, 1, 3, 2)}),
    )
    for variant, attributes in rows:
        yield from spread("Transpose", [[fed(*s)] for s in IMAGES], variant, ALL, attributes, keeps_scale=True)
    yield from spread(
        "Concat", [[fed(*s), fed(*s)] for s in IMAGES], "channels", ALL, {"axis": 1}, keeps_scale=True
    )
    yield from spread("Concat", [[fed(*s), fed(*s)] for s in TOKENS], "last axis", attributes={"axis": -1})
    yield from spread(
        "Split", [[fed(*s)] for s in IMAGES], "halves", attributes={"axis": 1, "num_outputs": 2}, outputs=2
    )
    uneven = [[fed(*s), numbers(s[-1] // 4, s[-1] // 2, s[-1] // 4)] for s in TOKENS]
    yield from spread("Split", uneven, "uneven", attributes={"axis": -1}, outputs=3)
    inner = [[fed(*s), numbers(2, 2), numbers(-2, -2), numbers(2, 3)] for s in IMAGES]
    yield from spread("Slice", inner, "crop", ALL, keeps_scale=True)
    stepped = [[fed(*s), numbers(0, 0), numbers(2**31, 2**31), numbers(2, 3), numbers(2, 2)] for s in IMAGES]
    yield from spread("Slice", stepped, "every second")
    back = [[fed(*s), numbers(-1), numbers(-(2**31)), numbers(1), numbers(-1)] for s in IMAGES]
    yield from spread("Slice", back, "backwards")
    table = [[weights(n, w), Port((1, t), 0, n, "int64")] for n, w, t in _TABLES]
    yield from spread("Gather", table, "embedding", attributes={"axis": 0})
    axis = [[fed(*s), Port((s[1] // 2,), 0, s[1], "int64")] for s in TOKENS]
    yield from spread("Gather", axis, "middle axis", attributes={"axis": 1})
    yield from spread("Squeeze", [[fed(1, *s[1:], 1), numbers(0, -1)] for s in IMAGES])
    yield from spread("Unsqueeze", [[fed(*s), numbers(0, -1)] for s in TOKENS])
    yield from spread("Expand", [[fed(s[0], 1, s[2]), numbers(*s)] for s in TOKENS])
    yield from spread("DepthToSpace", [[fed(*s)] for s in IMAGES], attributes={"blocksize": 2, "mode": "CRD"})
    for mode in ("constant", "edge", "reflect", "wrap"):
        ports = [[fed(*s), numbers(0, 0, 1, 2, 0, 0, 3, 1)] for s in IMAGES]
        yield from spread("Pad", ports, mode, attributes={"mode": mode})
    for to, come, (low, high) in _CASTS:
        ports = [[fed(*s, low=low, high=high, dtype=come)] for s in IMAGES]
        yield from spread("Cast", ports, f"{come} to {to}", ("fp32",), {"to": _ONNX_TYPES[to]})


def _resizes() -> Iterator[OperatorCase]:
    for variant, mode, coordinates, rounding, scale in _RESIZES:
        attributes: Attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
        if rounding:
            attributes["nearest_mode"] = rounding
        scales = Port((4,), dtype="float32", constant=True, values=(1.0, 1.0, scale, scale))
        ports = [[fed(*s), None, scales] for s in _RESIZED]
        yield from spread("Resize", ports, variant, attributes=attributes)
    sizes = [[fed(*s), None, None, numbers(s[0], s[1], 2 * s[2] + 1, 20)] for s in _RESIZED]
    yield from spread("Resize", sizes, "linear to a size", attributes={"mode": "linear"})


SHAPE: tuple[OperatorCase, ...] = (*_moves(), *_resizes())
