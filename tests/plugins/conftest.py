"""Planted plug-ins, and a model that they know how to make faster."""

import numpy as np
import pytest

from tests.conftest import write_onnx
from tests.plugins.planting import plant

__all__ = ["plant"]
_PAIRS = 16


@pytest.fixture
def no_plugin_code(tmp_path):
    """At the end of a test, nothing of a planted package was imported into this process."""
    yield
    import sys

    places = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    assert [place for place in places if place.startswith(str(tmp_path / "site"))] == []


@pytest.fixture(scope="session")
def halving(models):
    """Halves its input and then does much that cancels out, which no pass of edgeopt knows: 0.5 * x in the end."""
    nodes, last = [("Mul", ["x", "half"], ["h"], {})], "h"
    for number in range(_PAIRS):
        nodes += [("Atanh", [last], [f"a{number}"], {}), ("Tanh", [f"a{number}"], [f"t{number}"], {})]
        last = f"t{number}"
    nodes[-1] = ("Tanh", [nodes[-1][1][0]], ["y"], {})
    half = {"half": np.float32([0.5])}
    return write_onnx(models / "halving.onnx", nodes, half, {"x": [1, 4096]}, {"y": [1, 4096]})


@pytest.fixture(scope="session")
def halving_data(models):
    path = models / "halving.npz"
    np.savez(path, x=np.random.default_rng(0).uniform(-1, 1, (16, 4096)).astype(np.float32))
    return path
