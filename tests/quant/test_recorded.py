import zlib

import numpy as np
import onnxruntime as ort
import pytest

from edgeopt.errors import BundleError, UsageError
from edgeopt.graph.model import load, save
from edgeopt.quant.forms import FormContext
from edgeopt.quant.forms.base import Smoothing
from edgeopt.quant.records import QuantSettings, Range
from edgeopt.quant.write import Numbers, Recorded, Trace, decoded, encoded, record_of, write_again
from tests.conftest import seeded

FLOATS = np.array([[1.5, -0.1], [3e-38, 7.0]], np.float32)


def trace():
    context = FormContext(
        "onnxruntime-cpu",
        QuantSettings(),
        {"x": Range(-0.1, 2 / 3)},
        {},
        {"MatMul_0": Smoothing("x/smoothed", FLOATS[0]), "MatMul_3": Smoothing("x/smoothed", FLOATS[0])},
    )
    return Trace(context)


def test_what_is_recorded_comes_back_to_the_last_bit():
    found = decoded(encoded(record_of({"MatMul_0": "int8"}, trace(), {"MatMul_0": FLOATS[0]})))
    assert found == record_of({"MatMul_0": "int8"}, trace(), {"MatMul_0": FLOATS[0]})
    assert found.ranges == {"x": (-0.1, 2 / 3)}
    assert found.smoothing["x/smoothed"].layers == ("MatMul_0", "MatMul_3")
    assert encoded(found).count(b"\n") < 30, "a line for each tensor"


def test_forms_that_do_not_smooth_have_no_factors():
    assert not record_of({"MatMul_0": "w8"}, trace(), {}).smoothing


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"colour": 1}', "colour"),
        (b'{"schema": 9}', "schema 9"),
        (b'{"ranges": {"x": [1]}}', "cannot be read"),
    ],
)
def test_what_is_no_record(content, says):
    with pytest.raises(BundleError, match=says):
        decoded(content)


@pytest.mark.parametrize(
    "numbers",
    [Numbers((2,), b"abc"), Numbers((3,), b"x\x9cc`\x80\x01\x00\x00\x04\x00\x01"), Numbers((1 << 40,), b"")],
)
def test_arrays_that_are_none(matmul_model, numbers):
    with pytest.raises(BundleError, match="record of the quantization"):
        write_again(
            load(matmul_model).ir, {}, "onnxruntime-cpu", QuantSettings(), Recorded(weights={"w": numbers})
        )


def test_factors_of_another_model_are_refused(matmul_model):
    record = decoded(encoded(record_of({}, trace(), {"Conv_0": FLOATS[0]})))
    with pytest.raises(UsageError, match="'Conv_0' cannot be equalized"):
        write_again(load(matmul_model).ir, {}, "onnxruntime-cpu", QuantSettings(), record)


def test_the_same_choices_give_the_same_bytes(matmul_model, tmp_path):
    record = Recorded(ranges={"x": (-1.0, 2.0), "r": (0.0, 3.0)})
    files = []
    for number in range(3):
        found = write_again(
            load(matmul_model).ir,
            {"MatMul_0": "int8", "MatMul_3": "int8"},
            "onnxruntime-cpu",
            QuantSettings(),
            decoded(encoded(record)),
        )
        save(found.model, tmp_path / f"{number}.onnx")
        files.append((tmp_path / f"{number}.onnx").read_bytes())
    assert len(set(files)) == 1


def test_biases_recorded_by_earlier_versions_are_written(matmul_model, tmp_path):
    mean = np.linspace(-1, 1, 64, dtype=np.float32)
    record = Recorded(biases={"MatMul_0": Numbers(mean.shape, zlib.compress(mean.tobytes()))})
    model = load(matmul_model).ir
    found = write_again(model, {}, "onnxruntime-cpu", QuantSettings(), decoded(encoded(record)))
    save(found.model, tmp_path / "corrected.onnx")
    session = ort.InferenceSession(tmp_path / "corrected.onnx", providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"x": np.zeros((1, 32), np.float32)})
    wanted = np.maximum(seeded(64, seed=1) - mean, 0) @ seeded(64, 8, seed=2)
    assert np.allclose(output, wanted, atol=1e-5)
