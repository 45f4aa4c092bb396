import numpy as np
import onnx
import pytest

from edgeopt.commands.ops.cases import CASES
from edgeopt.commands.ops.prepare import prepare

BY_NAME = {case.name: case for case in CASES}


def operators_in(model):
    return [node.op_type for node in onnx.load_from_string(model).graph.node]


def test_in_int8_the_operator_stands_between_dequantizing_and_quantizing():
    prepared = prepare(BY_NAME["Conv 3x3 int8 small"])
    wanted = ["DequantizeLinear"] * 3 + ["Conv", "QuantizeLinear"]
    assert operators_in(prepared.model) == wanted
    held = {t.name: t.data_type for t in onnx.load_from_string(prepared.model).graph.initializer}
    assert (held["x1"], held["x2"]) == (onnx.TensorProto.INT8, onnx.TensorProto.INT32)
    assert prepared.feeds["x0"].dtype == np.uint8
    assert prepared.expected["y0"].dtype == np.uint8


def test_int8_results_use_the_whole_range():
    for name in ("MatMul weights int8 small", "Add two inputs int8 small"):
        expected = prepare(BY_NAME[name]).expected["y0"]
        assert expected.max() > 230 or expected.min() < 25


@pytest.mark.parametrize("name", ["Concat channels int8 small", "MaxPool 2x2 int8 small"])
def test_what_moves_numbers_keeps_their_scale(name):
    held = {
        t.name: onnx.numpy_helper.to_array(t)
        for t in onnx.load_from_string(prepare(BY_NAME[name]).model).graph.initializer
    }
    scales = {float(array) for key, array in held.items() if key.endswith("_scale")}
    assert len(scales) == 1


def test_a_case_is_the_same_every_time():
    one, two = (prepare(BY_NAME["LSTM bidirectional fp32 small"]) for _ in range(2))
    assert one.model == two.model
    assert np.array_equal(one.expected["y0"], two.expected["y0"])


def test_the_numbers_of_a_half_precision_case_are_those_of_the_reference():
    prepared = prepare(BY_NAME["Neg fp16 small"])
    assert prepared.feeds["x0"].dtype == np.float16
    assert np.array_equal(prepared.expected["y0"], -prepared.feeds["x0"].astype(np.float64))


@pytest.mark.parametrize(
    ("name", "operations", "moved_bytes"),
    [
        ("MatMul weights fp32 small", 2 * 16 * 128 * 128, 4 * (16 * 128 + 128 * 128 + 16 * 128)),
        ("Conv depth-wise 3x3 fp32 small", 2 * 16 * 14 * 14 * 9, 4 * (2 * 16 * 14 * 14 + 16 * 9 + 16)),
        ("Add two inputs fp32 small", 16 * 14 * 14, 4 * 3 * 16 * 14 * 14),
        ("Gather embedding fp32 small", 0, 2 * 4 * 8 * 64 + 8 * 8),
        ("ConvTranspose 2x2 strided fp32 small", 2 * 8 * 14 * 14 * 8 * 4, None),
        ("LSTM forward fp32 small", 8 * (2 * 4 * 16 * 32 + 9 * 16), None),
        ("Attention plain fp32 small", 4 * 4 * 16 * 16 * 32 + 5 * 4 * 16 * 16, None),
    ],
)
def test_work_and_bytes_are_counted(name, operations, moved_bytes):
    prepared = prepare(BY_NAME[name])
    assert prepared.operations == operations
    assert moved_bytes is None or prepared.moved_bytes == moved_bytes
