import math

import numpy as np
import pytest

from edgeopt.quant.forms import form_named
from edgeopt.quant.sensitivity.measure import local_noise
from edgeopt.quant.sensitivity.switchboard import Switchboard


def test_it_is_what_rounding_does_to_one_product(varied, layers, contexts, samples):
    """Worked out by hand for the first convolution, as a product of patches."""
    context, layer = contexts["openvino-cpu"], next(each for each in layers if each.weight == "w1")
    with Switchboard(varied, layers, {layer.name: ("int8",)}, context) as board:
        found = local_noise(board, samples)
    weight = varied.graph.initializers["w1"].const_value.numpy()
    scale = np.abs(weight).max(axis=(1, 2, 3), keepdims=True) / 127
    rounded = np.rint(weight / scale) * scale
    kept = context.ranges["x"]
    step = (kept.high - kept.low) / 255
    bias = varied.graph.initializers["b1"].const_value.numpy()[:, None]
    noise = signal = 0.0
    for k in range(len(samples)):
        x = samples.feeds(k)["x"]
        inexact = np.clip(np.rint(x / step), np.rint(kept.low / step), np.rint(kept.high / step)) * step
        exact = weight.reshape(8, -1) @ patches(x)
        noise += np.square(rounded.reshape(8, -1) @ patches(inexact) - exact).sum()
        signal += np.square(exact + bias).sum()
    assert found == {(layer.name, "int8"): pytest.approx(noise / signal, rel=0.02)}


def patches(x):
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return windows.transpose(0, 3, 4, 1, 2).reshape(4 * 9, -1)


def test_more_bits_leave_less_noise_in_every_layer(varied, layers, contexts, fitting, samples):
    context = contexts["openvino-cpu"]
    forms = {name: some for name, some in fitting(context, "w8", "w4").items() if len(some) > 1}
    assert forms
    with Switchboard(varied, layers, forms, context) as board:
        found = local_noise(board, samples)
    assert set(found) == {(name, form) for name in forms for form in ("w8", "w4")}
    assert all(0 < found[name, "w8"] < 0.1 * found[name, "w4"] < math.inf for name in forms)
    assert form_named("w8") in board.forms[next(iter(forms))]


def test_shared_weights_are_one_layer_with_both_products(varied, layers, contexts, samples):
    layer = next(each for each in layers if each.weight == "shared")
    assert len(layer.nodes) == 2
    with Switchboard(varied, layers, {layer.name: ("int8",)}, contexts["openvino-cpu"]) as board:
        assert 1e-7 < local_noise(board, samples)[layer.name, "int8"] < 1e-2


def test_nothing_to_look_at(varied, layers, contexts, samples):
    with Switchboard(varied, layers, {}, contexts["openvino-cpu"]) as board:
        assert local_noise(board, samples) == {}
