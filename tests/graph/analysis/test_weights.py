import time

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.graph.analysis import weights as module
from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.records import AnalysisOptions
from edgeopt.graph.analysis.weights import content, twins
from edgeopt.graph.model import load

TEXT = "g (float[64, 64] x) => (float[64, 64] y) { m = MatMul(x, a)  n = MatMul(m, b)  y = MatMul(n, c) }"


def square(seed):
    return np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)


@pytest.mark.parametrize("external", [False, True])
def test_what_weights_hold(write_model, external):
    sparse, strange, twin = square(0), square(1), square(2)
    sparse[:32] = 0
    strange[0, :3] = np.nan, np.inf, 1e-40
    path = write_model(TEXT.replace("y = MatMul(n, c)", "o = MatMul(n, c)  y = MatMul(o, d)"),
                       a=sparse, b=strange, c=twin, d=twin, spare=np.ones(3, np.float32))  # fmt: skip
    if external:
        onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    found = analyze_onnx(path)
    summary = found.weights_summary
    assert summary.zeros_share == pytest.approx(32 * 64 / (4 * 64 * 64 + 3))
    assert (summary.not_finite, summary.denormal, summary.unused) == (("b",), ("b",), ("spare",))
    assert (summary.twins, summary.twins_bytes) == ((("c", "d"),), 64 * 64 * 4)
    rows = {row.name: row for row in found.weights}
    assert (rows["a"].zeros_share, rows["a"].minimum) == (0.5, float(sparse.min()))
    # The range is that of the numbers.
    assert rows["b"].maximum == float(strange[np.isfinite(strange)].max())
    assert any("NaN or infinity in 1 weight: b" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(-5, 300, dtype=np.int64),
        np.array([0, 255], np.uint8),
        np.array([True, False]),
        np.array([0, 1e-7, 2], np.float16),
        np.array([0, 1e-310, -2], np.float64),
        np.array([0, 1e-39, 3], ml_dtypes.bfloat16),
        np.array([0, 0.5, 3], ml_dtypes.float8_e4m3fn),
        np.array([-8, 0, 7], ml_dtypes.int4),
    ],
    ids=lambda array: array.dtype.name,
)
def test_ranges_of_all_types(array):
    found = content(ir.tensor(array))
    wide = array.astype(np.float64)
    assert (found.minimum, found.maximum) == (wide.min(), wide.max())
    assert found.zeros_share == pytest.approx((wide == 0).mean())
    assert found.has_denormals == (array.dtype.name in {"float16", "float64", "bfloat16"})


def test_texts_have_no_range():
    assert content(ir.tensor(["a", "b"])) == module.Content()


def test_very_large_weights_are_left_alone_unless_asked_for(write_model, monkeypatch):
    monkeypatch.setattr(module, "LOOKED_INTO_BYTES", 1000)
    path = write_model(TEXT, a=square(0), b=square(0), c=square(1))
    summary = analyze_onnx(path).weights_summary
    assert summary.zeros_share is None
    assert "values not analyzed" in summary.note
    assert summary.twins == (("a", "b"),)
    assert analyze_onnx(path, AnalysisOptions(large_weights=True)).weights_summary.zeros_share == 0


@pytest.mark.timing
def test_ninety_megabytes_take_a_second():
    tensors = [
        ir.tensor(np.random.default_rng(k).standard_normal((1500, 1500)).astype(np.float32)) for k in range(10)
    ]
    begin = time.monotonic()
    for tensor in tensors:
        content(tensor)
    assert time.monotonic() - begin < 1.0


def test_the_histogram_counts_values_by_equal_steps():
    found = content(ir.tensor(np.array([-1, -1, 0, 0, 0, 3], np.float32)))
    assert len(found.histogram) == module.BINS
    assert {place: count for place, count in enumerate(found.histogram) if count} == {0: 2, 8: 3, 31: 1}


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.float16, ml_dtypes.bfloat16, ml_dtypes.int4, np.bool_])
def test_the_histogram_of_a_small_weight_has_all_its_values(kind):
    values = np.random.default_rng(0).integers(-8, 8, (7, 11)).astype(kind)
    assert sum(content(ir.tensor(values)).histogram) == values.size


def test_a_histogram_of_equal_values_or_of_none_is_empty():
    assert content(ir.tensor(np.zeros(5, np.float32))).histogram == ()
    assert content(ir.tensor(np.full(5, np.nan, np.float32))).histogram == ()


def test_the_histogram_leaves_nan_and_infinity_out_and_holds_the_largest_numbers():
    largest = float(np.finfo(np.float64).max)
    found = content(ir.tensor(np.array([-largest, np.nan, np.inf, 0, largest], np.float64)))
    assert {place: count for place, count in enumerate(found.histogram) if count} == {0: 1, 16: 1, 31: 1}


def test_a_large_weight_is_sampled_evenly_whatever_its_rows():
    """Columns of -1, 0 and 1: a step of a multiple of the row would see one of them only."""
    rows = 3 * module.MAX_COUNTED
    values = np.tile(np.array([-1, 0, 1], np.float32), rows)
    counts = [count for count in content(ir.tensor(values)).histogram if count]
    assert module.MAX_COUNTED / 3 < sum(counts) <= module.MAX_COUNTED
    assert max(counts) - min(counts) <= 2


THREE_PRODUCTS = (
    "g (float[64, 64] x) => (float[64, 64] y) { m = MatMul(x, a)  n = MatMul(m, b)  y = MatMul(n, c) }"
)


def twin_bytes(model):
    weights = [value.const_value for value in model.ir.graph.initializers.values()]
    return sum((len(group) - 1) * group[0].nbytes for group in twins(weights))


def square_weight(seed, change=None):
    array = np.random.default_rng(seed).random((64, 64)).astype(np.float32)
    if change is not None:
        array[change] += 1
    return array


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        ((square_weight(0), square_weight(1), square_weight(2)), 0),
        ((square_weight(0), square_weight(0), square_weight(2)), 16384),
        ((square_weight(0), square_weight(0), square_weight(0)), 2 * 16384),
        # Alike at the beginning, which is all that is looked at first.
        ((square_weight(0), square_weight(0, change=(63, 63)), square_weight(2)), 0),
    ],
)
def test_repeated_bytes(write_model, external, weights, wanted):
    path = write_model(THREE_PRODUCTS, **dict(zip("abc", weights, strict=True)))
    if external:
        onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert twin_bytes(load(path)) == wanted


def test_small_ones_and_other_shapes_do_not_count(write_model):
    text = "g (float[4] x) => (float[4] y) { m = Add(x, a)  n = Add(m, b)  r = Reshape(c, s)  y = Add(n, r) }"
    weights = {"a": np.ones(4, np.float32), "b": np.ones(4, np.float32), "c": np.ones((2, 2), np.float32)}
    assert twin_bytes(load(write_model(text, **weights, s=np.array([4])))) == 0
