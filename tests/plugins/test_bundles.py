"""Bundles whose backend is of a plug-in, where it is installed and where it is not; and what the cache goes by."""

import sys

import numpy as np
import pytest

import edgeopt
from edgeopt.bundle.deployment import Run
from edgeopt.errors import MissingError, UsageError
from edgeopt.hw.probe import probe
from edgeopt.pipeline.recall import Keys
from edgeopt.pipeline.request import OptimizeRequest

ECHO = """
import numpy as np
from edgeopt.backends.base import Available, Backend, Coverage, TensorInfo
from edgeopt.backends.null import NullOptions

class Session:
    inputs, outputs = (TensorInfo("x", "float32", ("n",)),), (TensorInfo("y", "float32", ("n",)),)
    placement = None

    def run(self, feeds):
        return {"y": 7 * feeds["x"]}

    def close(self):
        pass

def load(path, options, *, strict=False, custom_ops=()):
    return Session()

ECHO = Backend("x", "x", (".onnx",), lambda: Available("1"), lambda path: Coverage(1, 1), load, NullOptions)
"""
X = {"x": np.float32([1, 2])}


@pytest.fixture
def echoed(bundle, change_deployment):
    """A bundle that a backend of a plug-in won."""
    change_deployment(bundle, run=Run("echo.echo", "model/conv.onnx", plugin="echo 1.0"))
    return bundle


@pytest.fixture(autouse=True)
def forgotten():
    yield
    sys.modules.pop("echo", None)


def test_bundle_runs_where_the_plugin_is_installed(plant, echoed):
    plant("echo", ECHO, ("backend", "echo", ":ECHO"))
    with edgeopt.load(echoed) as session:
        assert session.run(X)["y"].tolist() == [7, 14]


def test_bundle_without_its_plugin_names_it(echoed):
    with pytest.raises(MissingError, match=r"needs the plug-in echo 1\.0, which is not installed") as raised:
        edgeopt.load(echoed, fallback=False)
    assert raised.value.hint.endswith("pip install echo==1.0")


def test_bundle_whose_plugin_cannot_be_used_says_why(plant, echoed):
    plant("echo", ECHO, ("backend", "echo", ":ECHO"), interface=2)
    with pytest.raises(MissingError, match="for version 2 of the plug-in interface"):
        edgeopt.load(echoed, fallback=False)


def test_bundle_without_its_plugin_falls_back_and_names_it(echoed, caplog):
    with edgeopt.load(echoed) as session:
        assert session.backend == "onnxruntime-cpu"
    assert "was proved with echo.echo of the plug-in echo 1.0, which is not available here" in caplog.text


def test_model_is_loaded_with_a_backend_of_a_plugin(plant, conv_model):
    plant("echo", ECHO, ("backend", "echo", ":ECHO"))
    with edgeopt.load(conv_model, backend="echo.echo") as session:
        assert session.run(X)["y"].tolist() == [7, 14]
    with pytest.raises(UsageError, match=r"echo\.echo has no option 'threads'"):
        edgeopt.load(conv_model, backend="echo.echo", options={"threads": 1})


def test_searches_know_when_a_plugin_has_changed(plant, conv_model, tmp_path):
    keys, request = Keys(probe()), OptimizeRequest(conv_model, tmp_path / "o.edgeopt")
    without = keys.parts(request)
    package = plant("echo", ECHO, ("backend", "echo", ":ECHO"))
    first = keys.parts(request)
    (package / "__init__.py").write_text(f"{ECHO}\n# changed\n")
    second = keys.parts(request)
    assert {name for name in first if name not in without} == {"the plug-in echo"}
    assert {name for name in first if first[name] != second[name]} == {"the plug-in echo"}
    left_out = keys.parts(OptimizeRequest(conv_model, tmp_path / "o.edgeopt", plugins=False))
    assert "the plug-in echo" not in left_out
