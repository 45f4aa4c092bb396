"""The models that a runtime's peaks are measured with: chains of equal matrix products or convolutions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeopt.measure.peaks import onnx
from edgeopt.measure.peaks.tasks import Layers

_ZERO_POINT = 128
_ACTIVATION_SCALE = np.float32(0.02)


def chain(task: Layers) -> tuple[bytes, NDArray[Any]]:
    """Returns the model and its input, named `x`."""
    return _int8_chain(task) if task.precision == "int8" else _float_chain(task)


def operations(task: Layers) -> int:
    """Returns the operations of one run; a multiplication and an addition are two."""
    weights = int(np.prod(_weight_shape(task)))
    places = task.shape[0] if task.operator == "MatMul" else task.shape[0] * task.shape[2] ** 2
    return 2 * places * weights * task.depth


def nothing() -> tuple[bytes, NDArray[Any]]:
    """Returns a model with one ReLU of eight numbers, and its input."""
    nodes = [onnx.node("Relu", ["x"], "y")]
    x, result = (onnx.port(name, "float32", (1, 8)) for name in "xy")
    return onnx.model(nodes, {}, x, result), np.ones((1, 8), np.float32)


def _float_chain(task: Layers) -> tuple[bytes, NDArray[Any]]:
    draw = np.random.default_rng(0)
    constants: dict[str, NDArray[Any]] = {}
    nodes = []
    values = _names(task.depth)
    for layer in range(task.depth):
        # Values keep their size from layer to layer, because denormal numbers slow a CPU down.
        weights = draw.standard_normal(_weight_shape(task), np.float32) / np.float32(_fan_in(task) ** 0.5)
        constants[f"w{layer}"] = weights
        nodes.append(_layer(task, [values[layer], f"w{layer}"], values[layer + 1]))
    return _model(task, nodes, constants, "float32"), draw.standard_normal(_input_shape(task), np.float32)


def _int8_chain(task: Layers) -> tuple[bytes, NDArray[Any]]:
    """Returns a chain of unsigned activations and signed weights, each dequantized first, as runtimes fuse it."""
    draw = np.random.default_rng(0)
    constants: dict[str, NDArray[Any]] = {
        "s": np.array(_ACTIVATION_SCALE),
        "z": np.array(_ZERO_POINT, np.uint8),
        "ws": np.array(1 / 64 / _fan_in(task) ** 0.5, np.float32),
        "wz": np.array(0, np.int8),
    }
    nodes = []
    values = _names(task.depth)
    for layer in range(task.depth):
        constants[f"w{layer}"] = draw.integers(-120, 121, _weight_shape(task), np.int8)
        nodes += [
            onnx.node("DequantizeLinear", [values[layer], "s", "z"], f"d{layer}"),
            onnx.node("DequantizeLinear", [f"w{layer}", "ws", "wz"], f"dw{layer}"),
            _layer(task, [f"d{layer}", f"dw{layer}"], f"r{layer}"),
            onnx.node("QuantizeLinear", [f"r{layer}", "s", "z"], values[layer + 1]),
        ]
    array = draw.integers(64, 192, _input_shape(task), np.uint8)
    return _model(task, nodes, constants, "uint8"), array


def _layer(task: Layers, inputs: list[str], output: str) -> bytes:
    if task.operator == "MatMul":
        return onnx.node("MatMul", inputs, output)
    side = _kernel(task)
    return onnx.node("Conv", inputs, output, kernel_shape=(side, side), pads=(side // 2,) * 4)


def _model(task: Layers, nodes: list[bytes], constants: dict[str, NDArray[Any]], dtype: str) -> bytes:
    x, result = (onnx.port(name, dtype, _input_shape(task)) for name in "xy")
    return onnx.model(nodes, constants, x, result)


def _names(depth: int) -> list[str]:
    return ["x", *(f"y{layer}" for layer in range(depth - 1)), "y"]


def _kernel(task: Layers) -> int:
    return 3 if task.operator == "Conv 3x3" else 1


def _input_shape(task: Layers) -> tuple[int, ...]:
    return task.shape if task.operator == "MatMul" else (*task.shape, task.shape[-1])


def _weight_shape(task: Layers) -> tuple[int, ...]:
    width, side = task.shape[1], _kernel(task)
    return (width, width) if task.operator == "MatMul" else (width, width, side, side)


def _fan_in(task: Layers) -> int:
    return task.shape[1] * _kernel(task) ** 2
