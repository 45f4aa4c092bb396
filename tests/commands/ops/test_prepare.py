import sys
import warnings
from collections import defaultdict
from math import prod

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from edgeopt.commands.ops.case import PRECISIONS, SIZES
from edgeopt.commands.ops.cases import CASES, operators
from edgeopt.commands.ops.compare import compare
from edgeopt.commands.ops.prepare import TOO_SLOW, compute, evaluate, prepare
from edgeopt.errors import MissingExtraError

WANTED = (
    "Add Sub Mul Div Sqrt Pow Exp Log Neg Abs Clip Relu LeakyRelu Elu Sigmoid Tanh Gelu Swish HardSwish Softmax",
    "MatMul Gemm Conv ConvTranspose MaxPool AveragePool GlobalAveragePool",
    "BatchNormalization LayerNormalization InstanceNormalization ReduceMean ReduceSum",
    "Reshape Transpose Concat Split Slice Gather Squeeze Unsqueeze Cast Pad Resize LSTM GRU Attention Where",
)


def test_the_operators_that_models_are_made_of_are_there():
    assert set(" ".join(WANTED).split()) <= set(operators())


def test_convolutions_of_all_kinds_are_there():
    variants = {case.variant for case in CASES if case.operator == "Conv"}
    assert {"3x3", "depth-wise 3x3", "1x1", "3x3 strided", "3x3 dilated"} <= variants


def test_each_is_tried_at_three_sizes_that_grow():
    groups = defaultdict(list)
    for case in CASES:
        groups[case.title, case.precision].append(case)
    for cases in groups.values():
        assert [case.size for case in cases] == list(SIZES)
        sizes = [sum(prod(port.shape) for port in case.ports if port) for case in cases]
        assert sizes[0] < sizes[1] < sizes[2], cases[0].title


def test_no_two_have_a_name_or_a_digest_in_common():
    assert len({case.name for case in CASES}) == len({case.digest for case in CASES}) == len(CASES)


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


def small_cases(operator):
    return [case for case in CASES if case.operator == operator and case.size == "small"]


def inputs_of(case):
    draw = np.random.default_rng(7)
    return [draw.standard_normal(port.shape) for port in case.ports]


def lines_of(function):
    """How many lines of Python it runs."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("operator", operators())
def test_models_give_what_is_expected_in_the_evaluator_of_onnx(operator):
    cases = small_cases(operator)
    assert cases
    for case in cases:
        prepared = prepare(case)
        model = onnx.load_from_string(prepared.model)
        onnx.checker.check_model(model, full_check=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy, about what the evaluator computes on the way
            outputs = ReferenceEvaluator(model).run(None, prepared.feeds)
        verdict = compare(prepared, {f"y{k}": np.asarray(array) for k, array in enumerate(outputs)})
        assert verdict.conforms, f"{case.name}: {verdict.message}"


@pytest.mark.parametrize("operator", TOO_SLOW)
def test_own_reference_equals_that_of_onnx(operator):
    for case in small_cases(operator):
        inputs = inputs_of(case)
        (own,), (wanted,) = compute(case, inputs), evaluate(case, inputs)
        assert own.dtype == wanted.dtype == np.float64
        np.testing.assert_allclose(own, wanted, rtol=1e-12, atol=1e-12, err_msg=case.name)


@pytest.mark.parametrize("operator", TOO_SLOW)
def test_own_reference_stays_only_while_that_of_onnx_loops_in_python(operator):
    case = small_cases(operator)[0]
    inputs = inputs_of(case)
    (output,) = compute(case, inputs)
    assert lines_of(lambda: compute(case, inputs)) < output.size
    assert lines_of(lambda: evaluate(case, inputs)) > output.size, "delete the own reference"


def test_evaluator_of_onnx_moves_a_leaky_relu_off_the_middle_of_two_steps():
    case = small_cases("LeakyRelu")[0]
    middle = [np.array([-5.0])]
    assert case.attributes == {"alpha": 0.1}
    assert compute(case, middle)[0][0] == -0.5
    assert evaluate(case, middle)[0][0] < -0.5, "delete the own reference"


def test_without_the_onnx_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx.reference", None)
    with pytest.raises(MissingExtraError) as raised:
        prepare(small_cases("Add")[0])
    assert raised.value.extra == "optimize"


def test_every_precision_is_tried():
    assert {case.precision for case in CASES} == set(PRECISIONS)
