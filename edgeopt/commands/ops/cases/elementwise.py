"""Operators that go number by number."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import (
    ALL,
    FLOATS,
    OPSET,
    Attributes,
    Case,
    Port,
    Precision,
    fed,
    number,
    spread,
    weights,
)
from edgeopt.commands.ops.cases.sizes import IMAGES, TOKENS

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


def _unary() -> Iterator[Case]:
    for operator, variant, span, attributes, precisions, opset in _UNARY:
        low, high = span or (None, None)
        ports = [[fed(*shape, low=low, high=high)] for shape in IMAGES]
        yield from spread(operator, ports, variant, precisions, attributes, opset=opset)


def _binary() -> Iterator[Case]:
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


def _others() -> Iterator[Case]:
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


CASES: tuple[Case, ...] = (*_unary(), *_binary(), *_others())
