"""Sizes that an import proved: they travel from the model into plans, bundles and sessions."""

import json

import numpy as np
import onnx
import pytest

import edgeopt
from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import Run, SourceModel
from edgeopt.bundle.plan import Plan, limits_in
from edgeopt.errors import DataError
from edgeopt.graph.import_proof import LIMITS_KEY
from tests.conftest import this_device


@pytest.fixture
def limited_model(conv_model, tmp_path):
    model = onnx.load(conv_model)
    onnx.helper.set_model_props(model, {LIMITS_KEY: json.dumps({"x": {"0": {"most": 2}}})})
    onnx.save(model, tmp_path / "limited.onnx")
    return tmp_path / "limited.onnx"


def test_a_plan_takes_the_limits_of_its_source_into_the_bundle(limited_model, bundle, change_deployment):
    info = TensorInfo("x", "float32", ("batch", 3, 16, 16))
    plan = Plan(
        *(SourceModel("limited.onnx", "0" * 64, 1), "quick", Run("onnxruntime-cpu", "model/conv.onnx")),
        inputs=[info],
        outputs=[TensorInfo("y", "float32", ("batch", 10))],
        limits=limits_in(limited_model),
    )
    change_deployment(bundle, inputs=plan.deployment(this_device()).inputs)
    with edgeopt.load(bundle) as session:
        assert session.run({"x": np.zeros((2, 3, 16, 16), np.float32)})["y"].shape == (2, 10)
        with pytest.raises(DataError, match="the size 3 in dimension 0; the model is for 1 to 2"):
            session.run({"x": np.zeros((3, 3, 16, 16), np.float32)})


def test_a_model_that_was_not_imported_has_no_limits(conv_model):
    assert limits_in(conv_model) == {}
