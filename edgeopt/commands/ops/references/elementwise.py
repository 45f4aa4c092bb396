"""Number by number."""

from collections.abc import Callable

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Array, Arrays, Formula, Inputs, real, word

# The error function by Abramowitz and Stegun 7.1.6: a series that converges everywhere, and quickly below 3.
_SERIES_TERMS = 60
_ONE_FROM = 6.0


def unary(function: Callable[[Array], Array]) -> Formula:
    return lambda inputs, _: [function(inputs[0])]


def binary(function: Callable[[Array, Array], Array]) -> Formula:
    return lambda inputs, _: [function(inputs[0], inputs[1])]


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def erf(x: Array) -> Array:
    """From a table, fine enough that Taylor's next three terms are exact to 1e-15."""
    step = 1 / 512
    places = np.arange(0.0, _ONE_FROM + step, step)
    known = _erf_series(places)
    size = np.minimum(np.abs(x), _ONE_FROM)
    near = np.rint(size / step).astype(np.int64)
    at = places[near]
    off = size - at
    slope = 2 / np.sqrt(np.pi) * np.exp(-at * at)
    taylor = off * (1 - at * off + (2 * at**2 - 1) / 3 * off**2 + (3 * at - 2 * at**3) / 6 * off**3)
    found: Array = np.sign(x) * (known[near] + slope * taylor)
    return found


def _erf_series(x: Array) -> Array:
    """2/sqrt(pi) exp(-x^2) times the sum of 2^n x^(2n+1) / (1·3···(2n+1)): no term is below zero."""
    term = x.copy()
    total = x.copy()
    for n in range(1, 4 * _SERIES_TERMS):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    found: Array = 2 / np.sqrt(np.pi) * np.exp(-x * x) * total
    return found


def _gelu(inputs: Inputs, attributes: Attributes) -> Arrays:
    x = inputs[0]
    if word(attributes, "approximate", "none") == "tanh":
        return [0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))]
    return [0.5 * x * (1 + erf(x / np.sqrt(2)))]


def _clip(inputs: Inputs, _: Attributes) -> Arrays:
    low, high = inputs.get(1), inputs.get(2)
    x = inputs[0]
    x = x if low is None else np.maximum(x, low)
    return [x if high is None else np.minimum(x, high)]


def _leaky_relu(inputs: Inputs, attributes: Attributes) -> Arrays:
    return [np.where(inputs[0] < 0, real(attributes, "alpha", 0.01) * inputs[0], inputs[0])]


def _elu(inputs: Inputs, attributes: Attributes) -> Arrays:
    x = inputs[0]
    return [np.where(x < 0, real(attributes, "alpha", 1.0) * np.expm1(np.minimum(x, 0)), x)]


def _hard_sigmoid(inputs: Inputs, attributes: Attributes) -> Arrays:
    alpha, beta = real(attributes, "alpha", 0.2), real(attributes, "beta", 0.5)
    return [np.clip(alpha * inputs[0] + beta, 0.0, 1.0)]


def _swish(inputs: Inputs, attributes: Attributes) -> Arrays:
    return [inputs[0] * sigmoid(real(attributes, "alpha", 1.0) * inputs[0])]


def _prelu(inputs: Inputs, _: Attributes) -> Arrays:
    return [np.where(inputs[0] < 0, inputs[1] * inputs[0], inputs[0])]


def _where(inputs: Inputs, _: Attributes) -> Arrays:
    return [np.where(inputs[0], inputs[1], inputs[2])]


FORMULAS: dict[str, Formula] = {
    "Sqrt": unary(np.sqrt),
    "Exp": unary(np.exp),
    "Log": unary(np.log),
    "Neg": unary(np.negative),
    "Abs": unary(np.abs),
    "Reciprocal": unary(lambda x: 1.0 / x),
    "Erf": unary(erf),
    "Floor": unary(np.floor),
    "Sin": unary(np.sin),
    "Cos": unary(np.cos),
    "Relu": unary(lambda x: np.maximum(x, 0.0)),
    "LeakyRelu": _leaky_relu,
    "Elu": _elu,
    "Sigmoid": unary(sigmoid),
    "Tanh": unary(np.tanh),
    "Softplus": unary(softplus),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": unary(lambda x: x * np.clip(x / 6 + 0.5, 0.0, 1.0)),
    "Mish": unary(lambda x: x * np.tanh(softplus(x))),
    "Gelu": _gelu,
    "Swish": _swish,
    "Add": binary(np.add),
    "Sub": binary(np.subtract),
    "Mul": binary(np.multiply),
    "Div": binary(np.divide),
    "Max": binary(np.maximum),
    "Min": binary(np.minimum),
    "Pow": binary(np.power),
    "Clip": _clip,
    "PRelu": _prelu,
    "Where": _where,
}
