import numpy as np
import onnx
import pytest

from edgeopt.graph.analysis.weights import twins
from edgeopt.graph.model import load

TEXT = "g (float[64, 64] x) => (float[64, 64] y) { m = MatMul(x, a)  n = MatMul(m, b)  y = MatMul(n, c) }"


def twin_bytes(model):
    weights = [value.const_value for value in model.ir.graph.initializers.values()]
    return sum((len(group) - 1) * group[0].nbytes for group in twins(weights))


def square(seed, change=None):
    array = np.random.default_rng(seed).random((64, 64)).astype(np.float32)
    if change is not None:
        array[change] += 1
    return array


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        ((square(0), square(1), square(2)), 0),
        ((square(0), square(0), square(2)), 16384),
        ((square(0), square(0), square(0)), 2 * 16384),
        # Alike at the beginning, which is all that is looked at first.
        ((square(0), square(0, change=(63, 63)), square(2)), 0),
    ],
)
def test_repeated_bytes(write_model, external, weights, wanted):
    path = write_model(TEXT, **dict(zip("abc", weights, strict=True)))
    if external:
        onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert twin_bytes(load(path)) == wanted


def test_small_ones_and_other_shapes_do_not_count(write_model):
    text = "g (float[4] x) => (float[4] y) { m = Add(x, a)  n = Add(m, b)  r = Reshape(c, s)  y = Add(n, r) }"
    weights = {"a": np.ones(4, np.float32), "b": np.ones(4, np.float32), "c": np.ones((2, 2), np.float32)}
    assert twin_bytes(load(write_model(text, **weights, s=np.array([4])))) == 0
