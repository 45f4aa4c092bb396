"""A share of what benchmarks/onnx_node_cases.py tries: onnx's own cases of single operators, simplified."""

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest
from onnx.backend.test.case import node as operator_cases

from edgeopt.graph.passes import Pass, PassContext
from edgeopt.graph.passes.base import Notes, is_op, nodes_of

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "onnx_node_cases.py"
STRIDE, SWEPT = 61, 7  # no divisors of how often cases repeat their forms


@pytest.fixture(scope="module")
def harness():
    spec = importlib.util.spec_from_file_location("onnx_node_cases", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnx_node_cases"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["onnx_node_cases"]


@pytest.fixture
def few_cases(harness, monkeypatch):
    """Only the operators below: to make the cases of all of them takes ten seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operator in ("add", "castlike", "sub"):
            importlib.import_module(f"onnx.backend.test.case.node.{operator}")
    found = {case.name: case for case in operator_cases._NodeTestCases}
    for case in found.values():
        case.model.ir_version = min(case.model.ir_version, harness.NEWEST_IR_VERSION)
    monkeypatch.setattr(harness, "cases", lambda: found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stride", [STRIDE, pytest.param(SWEPT, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_cases_that_onnx_runtime_passes_still_pass_simplified(harness, tmp_path, stride):
    names = list(harness.cases())[::stride]
    verdicts = [harness.judge(name, tmp_path, PassContext()) for name in names]
    assert [(v.name, v.guilty, v.simplified) for v in verdicts if v.simplified] == []
    assert [(v.name, v.rolled_back) for v in verdicts if v.rolled_back] == []
    assert sum(v.source is None for v in verdicts) > len(names) / 2


# Each of them failed once.
ONCE_WRONG = (
    "test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FN",  # folded into a Cast that saturates
)


@pytest.mark.parametrize("name", ONCE_WRONG)
@pytest.mark.usefixtures("few_cases")
def test_a_case_that_failed_once_passes(harness, tmp_path, name):
    verdict = harness.judge(name, tmp_path, PassContext())
    assert verdict.source is None
    assert (verdict.simplified, verdict.rolled_back) == (None, ())


def _added_up(model, context):
    model, notes = model.clone(), Notes()
    for node in nodes_of(model):
        if is_op(node, "Sub"):
            node.op_type = "Add"
            notes.did("made a Sub an Add", node.name or "")
    return notes.result(model)


@pytest.mark.usefixtures("few_cases")
def test_a_faulty_pass_is_found_and_named(harness, tmp_path, monkeypatch):
    faulty = Pass("add-up", "makes an Add of every Sub", _added_up)
    passes = harness.standard_passes()
    monkeypatch.setattr(harness, "standard_passes", lambda: (*passes[:3], faulty, *passes[3:]))
    verdict = harness.judge("test_sub", tmp_path, PassContext())
    assert verdict.guilty == "add-up"
    assert "Not equal" in verdict.simplified
    assert harness.judge("test_add", tmp_path, PassContext()).simplified is None
