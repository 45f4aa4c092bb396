"""A small decoder, sound and with planted faults."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.bundle.runtime.decoder import PAIRS, write_decoder


@pytest.fixture
def decoder(tmp_path):
    return write_decoder(tmp_path / "model.onnx")


def roll_cache(path):
    """Shifts the cache that the decoder returns by one position."""
    model = onnx.load(path)
    nodes = model.graph.node
    for present in PAIRS.values():
        for node in nodes:
            node.output[:] = [f"{present}.right" if name == present else name for name in node.output]
            node.input[:] = [f"{present}.right" if name == present else name for name in node.input]
        bounds = {"zero": 0, "last": -1, "end": np.iinfo(np.int64).max}
        held = {f"{present}.{name}": np.array([value]) for name, value in bounds.items()}
        model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in held.items())
        zero, last, end = held
        nodes.extend(
            [
                helper.make_node("Slice", [f"{present}.right", last, end, f"{present}.axis"], [f"{present}.tail"]),
                helper.make_node(
                    "Slice", [f"{present}.right", zero, last, f"{present}.axis"], [f"{present}.head"]
                ),
                helper.make_node("Concat", [f"{present}.tail", f"{present}.head"], [present], axis=2),
            ]
        )
        model.graph.initializer.append(numpy_helper.from_array(np.array([2]), f"{present}.axis"))
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def drown_head(path, strength):
    """Adds noise to the weights of the scores."""
    model = onnx.load(path)
    random = np.random.default_rng(7)
    for each in model.graph.initializer:
        if each.name == "scores":
            values = numpy_helper.to_array(each)
            noise = random.standard_normal(values.shape).astype(np.float32) * strength
            each.CopyFrom(numpy_helper.from_array(values + noise, "scores"))
    onnx.save(model, path)
    return path
