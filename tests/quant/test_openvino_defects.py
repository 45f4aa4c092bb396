"""What OpenVINO computes wrong in eight bits: models of a few operations, against the same arithmetic in numpy."""

import numpy as np
import openvino as ov
import pytest
from openvino import opset13

from edgeopt.backends.openvino.model import compile_model, core
from edgeopt.graph.accuracy import signal_to_noise_db
from edgeopt.quant.openvino_defects import avoid_defects

WEIGHTS = np.random.default_rng(1).normal(size=(24, 16, 3, 3)).astype(np.float32) * 0.1


def quantized(value, low, high):
    ends = [np.float32(each) for each in (low, high)]
    return opset13.fake_quantize(value, *ends, *ends, 256)


def weights(array):
    # 7 of 8 bits: a processor without VNNI adds pairs of products in 16 bits and would saturate.
    maximum = 2 * np.abs(array).max(axis=tuple(range(1, array.ndim)), keepdims=True)
    return opset13.fake_quantize(opset13.constant(array), -maximum, maximum, -maximum, maximum, 255)


def convolution(value, array=WEIGHTS):
    return opset13.convolution(value, weights(array), [1, 1], [1, 1], [1, 1], [1, 1])


def answer(model, x):
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    return np.array(next(iter(compile_model(core(), model, "CPU", config)([x]).values())))


def exact(model, x):
    """The same operations in floats: behind a switch, a quantizer is computed as it is described."""
    copy = model.clone()
    gate = opset13.parameter([], np.bool_, name="gate")
    for op in copy.get_ordered_ops():
        if op.get_type_name() == "FakeQuantize":
            targets = list(op.output(0).get_target_inputs())
            switch = opset13.select(gate, op.output(0), op.input_value(0))
            for target in targets:
                target.replace_source_output(switch.output(0))
    copy.add_parameters([gate])
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    return np.array(next(iter(compile_model(core(), copy, "CPU", config)([x, np.array(True)]).values())))


def branching(add):
    x = opset13.parameter(ov.PartialShape([-1, 16, -1, -1]), np.float32, name="x")
    y = convolution(quantized(x, -3 * 128 / 127, 3))
    return ov.Model([add(y)], [x])


def squeeze_and_excite(y):
    return opset13.multiply(y, opset13.sigmoid(opset13.reduce_mean(y, opset13.constant(np.array([2, 3])), True)))


def behind_silu():
    x = opset13.parameter([1, 16, 8, 8], np.float32, name="x")
    y = opset13.multiply(x, opset13.sigmoid(x))
    return ov.Model([opset13.relu(convolution(quantized(y, -0.2785, 145.3)))], [x])


def pooled(reduce):
    x = opset13.parameter([1, 20, 16], np.float32, name="x")
    y = reduce(x, opset13.constant(np.array([1])), False)
    matrix = weights(WEIGHTS[:16, :, 0, 0])
    return ov.Model([opset13.matmul(quantized(y, 0, 2), matrix, False, True)], [x])


MODELS = {
    "convolution that is scaled by its mean": lambda: branching(squeeze_and_excite),
    "convolution that is added to itself": lambda: branching(lambda y: opset13.add(y, opset13.relu(y))),
    "range that begins within a step below zero": behind_silu,
    "global maximum": lambda: pooled(opset13.reduce_max),
    "global minimum": lambda: pooled(opset13.reduce_min),
}


@pytest.mark.parametrize("name", MODELS)
def test_file_answers_as_its_quantizers_say(name):
    model = MODELS[name]()
    sizes = [size.get_length() if size.is_static else 8 for size in model.inputs[0].get_partial_shape()]
    sizes[0] = 1
    x = np.abs(np.random.default_rng(2).normal(size=sizes).astype(np.float32)) * (40 if "range" in name else 1)
    assert avoid_defects(model)
    assert signal_to_noise_db(exact(model, x), answer(model, x)) > 60


def test_change_says_what_and_where():
    (change,) = avoid_defects(MODELS["convolution that is added to itself"]())
    assert "bias" in change.what
    assert len(change.nodes) == 1


def test_what_is_computed_right_stays_as_it_is():
    x = opset13.parameter([1, 16, 8, 8], np.float32, name="x")
    y = convolution(quantized(x, -3 * 128 / 127, 3))
    assert avoid_defects(ov.Model([opset13.relu(y)], [x])) == ()
