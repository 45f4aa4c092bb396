"""Nets over words and over time: an embedding, and streams that hand their state from one call to the next."""

import numpy as np
import onnx

from tests.families.exporter import INT64, Exporter

VOCABULARY = 99


def word2vec() -> onnx.ModelProto:
    """The mean of the words' vectors against the vectors of all words."""
    g = Exporter(9, seed=30)
    vectors = g.op("Gather", g.weight(VOCABULARY, 16, scale=1.0), "input_ids", axis=0)
    mean = g.op("ReduceMean", vectors, axes=[1], keepdims=0)
    scores = g.op("MatMul", mean, g.op("Transpose", g.weight(VOCABULARY, 16, scale=1.0), perm=[1, 0]))
    return g.model(
        {"input_ids": (INT64, ["batch", "sequence"])},
        {g.named(g.op("LogSoftmax", scores, axis=1), "output"): ["batch", VOCABULARY]},
    )


def lstm_stream() -> onnx.ModelProto:
    """A signal through a convolution and two layers of LSTM; both states come in and go out again."""
    g = Exporter(14, seed=31)
    x = g.op(
        "Relu",
        g.op(
            "Conv",
            g.op("Unsqueeze", "input", [1]),
            g.weight(12, 1, 8, scale=0.3),
            g.weight(12),
            kernel_shape=[8],
            strides=[4],
            pads=[2, 2],
        ),
    )
    x = g.op("Transpose", x, perm=[2, 0, 1])
    states = [g.split(state, [1, 1], axis=0) for state in ("hidden", "cell")]
    left: list[list[str]] = [[], []]
    for layer, size in enumerate((12, 16)):
        weights = [g.weight(1, 64, size, scale=0.2), g.weight(1, 64, 16, scale=0.2), g.weight(1, 128, scale=0.1)]
        y, *after = g.op("LSTM", x, *weights, "", states[0][layer], states[1][layer], outputs=3, hidden_size=16)
        x = g.op("Squeeze", y, [1])
        for kept, state in zip(left, after, strict=True):
            kept.append(state)
    last = g.op("Gather", x, np.array(-1, np.int64), axis=0)
    speech = g.op("Sigmoid", g.linear(last, 16, 1))
    hidden, cell = (g.op("Concat", *kept, axis=0) for kept in left)
    state = [2, "batch", 16]
    return g.model(
        {"input": ["batch", 64], "hidden": state, "cell": state},
        {
            g.named(speech, "output"): ["batch", 1],
            g.named(hidden, "hidden_out"): state,
            g.named(cell, "cell_out"): state,
        },
    )


def gru_stream() -> onnx.ModelProto:
    """Frames both ways through a GRU, with a state of zeros made by arithmetic on shapes where none is given."""
    g = Exporter(11, seed=32)
    x = g.op("Transpose", "frames", perm=[1, 0, 2])
    zeros = g.op("ConstantOfShape", g.shape(2, g.size("frames", 0), 12))
    weights = [g.weight(2, 36, 10, scale=0.2), g.weight(2, 36, 12, scale=0.2), g.weight(2, 72, scale=0.1)]
    y, state = g.op(
        "GRU",
        x,
        *weights,
        "",
        g.op("Add", zeros, "state"),
        outputs=2,
        hidden_size=12,
        direction="bidirectional",
        linear_before_reset=1,
    )
    y = g.reshape(g.op("Transpose", y, perm=[0, 2, 1, 3]), 0, 0, -1)
    scores = g.op("LogSoftmax", g.linear(g.op("Transpose", y, perm=[1, 0, 2]), 24, 20), axis=2)
    return g.model(
        {"frames": ["batch", "sequence", 10], "state": [2, "batch", 12]},
        {g.named(scores, "scores"): ["batch", "sequence", 20], g.named(state, "state_out"): [2, "batch", 12]},
    )
