"""Our formulas, models and tolerances against ONNX's own evaluator, on every small case."""

import math
import warnings

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from edgeopt.commands.ops.case import PRECISIONS
from edgeopt.commands.ops.cases import CASES, operators
from edgeopt.commands.ops.compare import compare
from edgeopt.commands.ops.prepare import prepare
from edgeopt.commands.ops.references.elementwise import erf


@pytest.mark.parametrize("operator", operators())
def test_the_evaluator_of_onnx_gives_the_same(operator):
    cases = [case for case in CASES if case.operator == operator and case.size == "small"]
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


def test_every_precision_is_tried():
    assert {case.precision for case in CASES} == set(PRECISIONS)


def test_the_error_function_is_exact_to_a_few_bits():
    places = np.linspace(-7, 7, 2001)
    exact = np.array([math.erf(place) for place in places])
    assert np.abs(erf(places) - exact).max() < 1e-14
