"""Convolutions: an output's element adds up one product for each weight of its filter, groups included.

The weights' shape already has the channels of one group alone. Products with padding count like the others.
"""

from math import prod

from edgeopt.graph.analysis.cost.call import Arithmetic, Call


def plain(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * prod(call.shape(1)[1:]))


def activated(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * prod(call.shape(1)[1:]), call.out())


def transposed(call: Call) -> Arithmetic:
    """Each element that comes in is multiplied with all weights of its channel."""
    return Arithmetic(call.given() * prod(call.shape(1)[1:]))


def quantized(call: Call) -> Arithmetic:
    """The sums are scaled back."""
    return Arithmetic(call.out() * prod(call.shape(3)[1:]), call.out())


def quantized_transposed(call: Call) -> Arithmetic:
    return Arithmetic(call.given() * prod(call.shape(3)[1:]), call.out())


def deformed(call: Call) -> Arithmetic:
    """What a filter sees is first mixed from four neighbours (in a plane), and weighted where there is a mask."""
    out, weights = call.output().known_shape(), call.shape(1)
    seen = out[0] * call.axis(0, 1) * prod(weights[2:]) * prod(out[2:])
    mixed = 2 ** len(weights[2:]) * seen
    return Arithmetic(prod(out) * prod(weights[1:]) + mixed, seen if call.has(4) else 0)


def causal(call: Call) -> Arithmetic:
    return Arithmetic(
        call.out() * prod(call.shape(1)[1:]), call.out() if call.text("activation", "none") != "none" else 0
    )


RULES = {
    **dict.fromkeys(("Conv", "ConvInteger", "NhwcConv"), plain),
    **dict.fromkeys(("FusedConv", "NhwcFusedConv"), activated),
    **dict.fromkeys(("ConvTranspose", "ConvTransposeWithDynamicPads"), transposed),
    "QLinearConv": quantized,
    "QLinearConvTranspose": quantized_transposed,
    "DeformConv": deformed,
    "CausalConvWithState": causal,
}
