"""Recurrent layers: at every step all weights once, and a few operations for each element of the state."""

from collections.abc import Callable
from math import prod

from edgeopt.graph.analysis.cost.call import Arithmetic, Call


def _layer(of_state: int) -> Callable[[Call], Arithmetic]:
    def rule(call: Call) -> Arithmetic:
        steps = prod(call.shape(0)[:2])  # length and batch, in either order
        weights = call.input(1).count() + call.input(2).count()
        # Those of a dynamically quantized layer lie transposed: [directions, state, gates].
        state = min(call.shape(2)[-2:])
        return Arithmetic(steps * weights, steps * call.axis(2, 0) * of_state * state)

    return rule


RULES = {
    # Four gates; c = f * c + i * g; h = o * tanh(c).
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), _layer(4 + 3 + 2)),
    # Three gates; the reset; h = (1 - z) * n + z * h.
    "GRU": _layer(3 + 1 + 4),
    "RNN": _layer(1),
}
