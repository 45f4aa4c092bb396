"""Convolutions in eight bits with all that may stand behind them: OpenVINO computes what the quantizers describe.

A new version of OpenVINO that fails here computes something else wrong; `edgeopt.quant.openvino_defects` is the
place for it.
"""

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from edgeopt.graph.accuracy import signal_to_noise_db
from edgeopt.quant.openvino_defects import avoid_defects
from tests.quant.test_openvino_defects import answer, exact, quantized

CHANNELS = 16


def array(*values):
    return op.constant(np.array(values))


def number(value):
    return op.constant(np.float32(value))


def by_channel(seed, sign=0):
    values = np.random.default_rng(seed).normal(size=(1, CHANNELS, 1, 1)).astype(np.float32)
    return op.constant(sign * np.abs(values) if sign else values)


def half(y):
    return op.multiply(y, number(0.5))


BEHIND = {
    "nothing": lambda y: y,
    "relu": op.relu,
    "sigmoid": op.sigmoid,
    "tanh": op.tanh,
    "gelu": lambda y: op.gelu(y, "erf"),
    "hard swish": op.hswish,
    "swish": lambda y: op.multiply(y, op.sigmoid(y)),
    "leaky relu": lambda y: op.prelu(y, number(0.1)),
    "clip": lambda y: op.clamp(y, 0.0, 6.0),
    "elu": lambda y: op.elu(y, 1.0),
    "abs": op.abs,
    "negative": op.negative,
    "square root": lambda y: op.sqrt(op.relu(y)),
    "square": lambda y: op.power(y, number(2)),
    "max pool": lambda y: op.max_pool(y, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0),
    "mean pool": lambda y: op.avg_pool(y, [2, 2], [0, 0], [0, 0], [2, 2], True),
    "padded mean pool": lambda y: op.avg_pool(y, [1, 1], [1, 1], [1, 1], [3, 3], False),
    "global mean": lambda y: op.add(op.reduce_mean(y, array(2, 3), True), half(y)),
    "global maximum": lambda y: op.add(op.reduce_max(y, array(2, 3), True), half(y)),
    "nearest resize": lambda y: op.interpolate(
        y, op.constant(np.float32([2, 2])), "nearest", "scales", axes=array(2, 3)
    ),
    "linear resize": lambda y: op.interpolate(
        y, op.constant(np.float32([2, 2])), "linear_onnx", "scales", axes=array(2, 3)
    ),
    "concatenation": lambda y: op.concat([y, op.relu(y)], 1),
    "three concatenated": lambda y: op.concat([y, op.multiply(y, number(3)), op.sigmoid(y)], 1),
    "gate": lambda y: op.multiply(*op.split(y, op.constant(1), 2).outputs()),
    "swapped halves": lambda y: op.concat(op.split(y, op.constant(1), 2).outputs()[::-1], 1),
    "zero padding": lambda y: op.pad(y, array(0, 0, 1, 1), array(0, 0, 1, 1), "constant", number(0)),
    "reflected padding": lambda y: op.pad(y, array(0, 0, 1, 1), array(0, 0, 1, 1), "reflect"),
    "slice": lambda y: op.slice(y, array(1), array(9), array(1), array(1)),
    "transpose": lambda y: op.transpose(y, array(0, 2, 3, 1)),
    "depth to space": lambda y: op.depth_to_space(y, "blocks_first", 2),
    "channel shuffle": lambda y: op.shuffle_channels(y, 1, 2),
    "residual": lambda y: op.add(y, op.relu(y)),
    "residual of a sigmoid": lambda y: op.add(y, op.sigmoid(op.negative(y))),
    "scale": lambda y: op.multiply(y, by_channel(1)),
    "negative scale": lambda y: op.multiply(y, by_channel(2, sign=-1)),
    "scale and shift": lambda y: op.add(op.multiply(y, by_channel(3)), by_channel(4)),
    "one minus": lambda y: op.subtract(number(1), y),
    "maximum of two": lambda y: op.maximum(y, op.multiply(y, number(0.3))),
    "softmax": lambda y: op.softmax(y, 1),
    "normalization": lambda y: op.mvn(y, array(2, 3), True, 1e-5, "inside_sqrt"),
    "squeeze and excite": lambda y: op.multiply(y, op.sigmoid(op.reduce_mean(y, array(2, 3), True))),
    "sum of channels": lambda y: op.multiply(op.reduce_sum(y, array(1), True), number(0.2)),
}


def convolution(value, per_channel, *, bias):
    groups = CHANNELS if per_channel else 1
    shape = (groups, CHANNELS // groups, CHANNELS // groups, 3, 3)[0 if per_channel else 1 :]
    weights = np.random.default_rng(5).normal(size=shape).astype(np.float32) / np.float32(
        np.sqrt(np.prod(shape[-3:]))
    )
    maximum = np.abs(weights).max(axis=(-3, -2, -1), keepdims=True)
    kept = op.fake_quantize(op.constant(weights), -maximum, maximum, -maximum, maximum, 255)
    make = op.group_convolution if per_channel else op.convolution
    y = make(value, kept, [1, 1], [1, 1], [1, 1], [1, 1])
    return op.add(y, by_channel(6)) if bias else y


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[1, CHANNELS, 8, 8], [-1, CHANNELS, -1, -1]], ids=["static", "dynamic"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("per_channel", [False, True], ids=["dense", "by channel"])
@pytest.mark.parametrize("name", BEHIND)
def test_convolution_answers_as_its_quantizers_say(name, per_channel, bias, sizes):
    x = op.parameter(ov.PartialShape(sizes), np.float32, name="x")
    y = BEHIND[name](convolution(quantized(x, -2, 3), per_channel, bias=bias))
    shape = y.get_output_partial_shape(0) if hasattr(y, "get_output_partial_shape") else y.get_partial_shape()
    if shape[1].is_static and shape[1].get_length() >= CHANNELS:
        kept = quantized(y, -4 * 128 / 127, 4)
        weights = np.random.default_rng(7).normal(size=(8, shape[1].get_length(), 3, 3)).astype(np.float32) / 12
        maximum = np.abs(weights).max(axis=(1, 2, 3), keepdims=True)
        weights = op.fake_quantize(op.constant(weights), -maximum, maximum, -maximum, maximum, 255)
        y = op.relu(op.convolution(kept, weights, [1, 1], [1, 1], [1, 1], [1, 1]))
    model = ov.Model([y], [x])
    avoid_defects(model)
    samples = np.random.default_rng(8).normal(size=(1, CHANNELS, 8, 8)).astype(np.float32)
    assert signal_to_noise_db(exact(model, samples), answer(model, samples)) > 30
