"""Models whose pairs of eight-bit products overflow 16 bits, and their files."""

import msgspec
import numpy as np

from edgeopt.data.samples import Samples
from edgeopt.graph.model import load
from edgeopt.profiles import shipped_profiles
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.layers import find_layers
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.schemes import SchemeContext
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import write_onnx


def samples(count=8):
    """Positive, as behind a Relu, and often near their largest."""
    images = np.random.default_rng(3).beta(3.0, 1.5, (count, 4, 8, 8)).astype(np.float32)
    return Samples({"x": images}, {"x": 4})


def planted(path):
    """Two convolutions and a classifier; their weights are all near the largest, and mostly of one sign."""
    random = np.random.default_rng(7)

    def weights(*shape):
        sign = np.where(random.random(shape) < 0.9, 1.0, -1.0)
        return (sign * random.uniform(0.85, 1.0, shape) / np.prod(shape[1:])).astype(np.float32)

    nodes = [
        ("Conv", ["x", "first"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {}),
        ("Conv", ["r", "second"], ["d"], {"strides": [2, 2], "pads": [1, 0, 1, 0]}),
        ("Relu", ["d"], ["s"], {}),
        ("Flatten", ["s"], ["flat"], {}),
        ("Gemm", ["flat", "classes"], ["y"], {"transB": 1}),
    ]
    constants = {"first": weights(8, 4, 3, 3), "second": weights(8, 8, 3, 3), "classes": weights(10, 8 * 4 * 3)}
    return write_onnx(path, nodes, constants, {"x": [1, 4, 8, 8]}, {"y": [1, 10]})


def settings_of(target):
    """As `edgeopt quantize --profile` takes them."""
    profile = next(each for each in shipped_profiles() if each.name == target)
    return msgspec.convert(msgspec.to_builtins(profile.quantization), QuantSettings)


def quantized(path, settings, scheme="int8", backend="onnxruntime-cpu", data=None):
    model, data = load(path).ir, data or samples()
    layers = find_layers(model, {name: tuple(shape) for name, shape in data.shapes().items()})
    ranges = calibrate(path, data, tensors_wanted(model, layers, settings), settings).ranges
    choices = {layer.name: scheme for layer in layers}
    return write(model, layers, choices, SchemeContext(backend, settings, ranges)).model
