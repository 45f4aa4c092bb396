import numpy as np
import onnx
import onnxruntime
import pytest

from edgeopt.measure.peaks import layers as peaks_layers
from edgeopt.measure.peaks.tasks import Layers

SHAPES = (("MatMul", (4, 32)), ("Conv 1x1", (2, 16, 6)), ("Conv 3x3", (1, 16, 5)))


def layers(operator, shape, precision="fp32", depth=3):
    return Layers("onnxruntime-cpu", precision, 1, operator, shape, depth)


@pytest.fixture
def run(tmp_path):
    """Runs a task's model once: its output, and the operators that the runtime made of it."""

    def once(task):
        model, given = peaks_layers.chain(task)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        (output,) = session.run(None, {"x": given})
        return output, [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]

    return once


@pytest.mark.parametrize(("operator", "shape"), SHAPES)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_models_are_valid_and_deep_as_asked(operator, shape, precision):
    model = onnx.load_from_string(peaks_layers.chain(layers(operator, shape, precision))[0])
    onnx.checker.check_model(model, full_check=True)
    assert [n.op_type for n in model.graph.node].count(operator.split()[0]) == 3


@pytest.mark.parametrize(("operator", "shape"), SHAPES)
def test_numbers_stay_of_one_size(run, operator, shape):
    output, _ = run(layers(operator, shape, depth=8))
    assert 0.01 < output.std() < 10


@pytest.mark.parametrize(("operator", "shape"), SHAPES)
def test_int8_layers_are_fused_and_use_the_range(run, operator, shape):
    output, operators = run(layers(operator, shape, "int8"))
    # A transposition at each end turns the layout of convolutions; inside the chain there is nothing else.
    assert set(operators) - {"Transpose"} in ({"QLinearMatMul"}, {"QLinearConv"})
    assert operators.count("Transpose") <= 2
    assert output.dtype == np.uint8
    assert 10 < output.std() < 100


@pytest.mark.parametrize(
    ("operator", "shape", "expected"),
    [
        ("MatMul", (4, 32), 2 * 4 * 32 * 32),
        ("Conv 1x1", (2, 16, 6), 2 * 2 * 36 * 16 * 16),
        ("Conv 3x3", (1, 16, 5), 2 * 25 * 16 * 16 * 9),
    ],
)
def test_operations(operator, shape, expected):
    assert peaks_layers.operations(layers(operator, shape, depth=3)) == 3 * expected
