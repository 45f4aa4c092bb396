"""Recurrent layers, step by step."""

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.elementwise import sigmoid
from edgeopt.commands.ops.references.formula import Array, Arrays, Formula, Inputs, integer, word


def _lstm(inputs: Inputs, attributes: Attributes) -> Arrays:
    """Gates lie in the order input, output, forget, cell."""
    x, hidden = inputs[0], integer(attributes, "hidden_size", 1)
    every, last, cells = [], [], []
    for direction in range(inputs[1].shape[0]):
        state, cell = (_begin(inputs, position, direction, x, hidden) for position in (5, 6))
        bias = _bias(inputs, direction, 8 * hidden)
        projected = x @ inputs[1][direction].T + bias[: 4 * hidden] + bias[4 * hidden :]
        found = np.zeros((x.shape[0], x.shape[1], hidden))
        for step in _steps(x.shape[0], direction, attributes):
            gates = projected[step] + state @ inputs[2][direction].T
            i, o, f, c = np.split(gates, 4, axis=-1)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(c)
            state = sigmoid(o) * np.tanh(cell)
            found[step] = state
        every.append(found)
        last.append(state)
        cells.append(cell)
    return [np.stack(every, axis=1), np.stack(last), np.stack(cells)]


def _gru(inputs: Inputs, attributes: Attributes) -> Arrays:
    """Gates lie in the order update, reset, hidden."""
    x, hidden = inputs[0], integer(attributes, "hidden_size", 1)
    every, last = [], []
    for direction in range(inputs[1].shape[0]):
        state = _begin(inputs, 5, direction, x, hidden)
        given, recurrent = np.split(_bias(inputs, direction, 6 * hidden), 2)
        projected = x @ inputs[1][direction].T + given
        weights = inputs[2][direction]
        found = np.zeros((x.shape[0], x.shape[1], hidden))
        for step in _steps(x.shape[0], direction, attributes):
            own = projected[step]
            two = sigmoid(own[:, : 2 * hidden] + state @ weights[: 2 * hidden].T + recurrent[: 2 * hidden])
            update, reset = np.split(two, 2, axis=-1)
            if integer(attributes, "linear_before_reset", 0):
                inner = reset * (state @ weights[2 * hidden :].T + recurrent[2 * hidden :])
            else:
                inner = (reset * state) @ weights[2 * hidden :].T + recurrent[2 * hidden :]
            new = np.tanh(own[:, 2 * hidden :] + inner)
            state = (1 - update) * new + update * state
            found[step] = state
        every.append(found)
        last.append(state)
    return [np.stack(every, axis=1), np.stack(last)]


def _begin(inputs: Inputs, position: int, direction: int, x: Array, hidden: int) -> Array:
    given = inputs.get(position)
    return np.zeros((x.shape[1], hidden)) if given is None else given[direction]


def _bias(inputs: Inputs, direction: int, size: int) -> Array:
    given = inputs.get(3)
    return np.zeros(size) if given is None else given[direction]


def _steps(count: int, direction: int, attributes: Attributes) -> range:
    backwards = direction == 1 or word(attributes, "direction", "forward") == "reverse"
    return range(count - 1, -1, -1) if backwards else range(count)


FORMULAS: dict[str, Formula] = {"LSTM": _lstm, "GRU": _gru}
