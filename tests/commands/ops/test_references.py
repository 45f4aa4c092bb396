"""References, models and tolerances against ONNX's own evaluator, on every small case."""

import sys
import warnings

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from edgeopt.commands.ops.case import PRECISIONS
from edgeopt.commands.ops.cases import CASES, operators
from edgeopt.commands.ops.compare import compare
from edgeopt.commands.ops.prepare import TOO_SLOW, compute, evaluate, prepare
from edgeopt.errors import MissingExtraError


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
