"""Commands that measure on another device, and a model that is small enough for them."""

import json
import time

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.cli.main import run

DEADLINE_S = 30.0


@pytest.fixture
def call(capsys):
    """Runs a command and gives its exit code and its last event."""

    def call(*arguments):
        code = run([*map(str, arguments), "--json"])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


@pytest.fixture
def model(tmp_path):
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", value[:1], value[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx"
    )
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).standard_normal((16, 1, 8), np.float32))
    return tmp_path / "m.onnx"


def wait_until(holds):
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
