import re

import numpy as np
import pytest

from edgeopt.errors import InputError
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.pipeline import run_pipeline
from edgeopt.graph.rules import load_rules

SILU = '''"""x * sigmoid(x) has an operator of its own."""
NAME = "silu"
TITLE = "x * sigmoid(x) becomes Swish"

def pattern(op, x):
    return op.Mul(x, op.Sigmoid(x))

def check(context, x):
    from onnxscript.rewriter import MatchResult

    return MatchResult().fail("x is an input") if x.is_graph_input() else True

def replacement(op, x):
    return op.Swish(x)
'''
LIST = """from onnxscript.rewriter import RewriteRule

def double_negation(op, x):
    return op.Neg(op.Neg(x))

def nothing(op, x):
    return op.Identity(x)

def tanh_twice(op, x):
    return op.Tanh(op.Tanh(x))

RULES = [RewriteRule(double_negation, nothing, name="negations"), RewriteRule(tanh_twice, nothing, name="tanhs")]
"""
X = np.float32([-2, -1, 0.5, 3])


@pytest.fixture
def rules(tmp_path):
    def write(text):
        (tmp_path / "mine.py").write_text(text)
        return load_rules(tmp_path / "mine.py")

    return write


def test_a_rule_is_applied_and_where_its_check_refuses_the_reason_is_told(rules, make_model, apply_pass, kinds):
    (silu,) = rules(SILU)
    text = """g (float[4] x) => (float[4] y) {
        s = Sigmoid(x)  a = Mul(x, s)  t = Sigmoid(a)  y = Mul(a, t) }"""
    result = apply_pass(silu, make_model(text, opset=24, ir_version=11), 1e-6, x=X)
    assert kinds(result.model) == ["Sigmoid", "Mul", "Swish"]
    assert (silu.name, silu.title) == ("mine:silu", "x * sigmoid(x) becomes Swish")
    assert result.applied[0].what == "replaced 1 match"
    assert result.refused[0].reason == "x is an input"
    assert len(result.refused[0].nodes) == 1


def test_a_rule_reaches_into_subgraphs(rules, make_model, kinds):
    negations, _ = rules(LIST)
    text = """g (bool c, float[4] x) => (float[4] y) {
        y = If (c) <then_branch = t () => (float[4] a) { n = Neg(x)  a = Neg(n) },
                    else_branch = e () => (float[4] b) { b = Abs(x) }> }"""
    assert "Neg" not in kinds(negations.apply(make_model(text).ir, PassContext()).model)


def test_of_several_rules_only_the_wrong_one_is_rolled_back(rules, make_model, results):
    model = make_model("g (float[4] x) => (float[4] y) { a = Neg(x)  b = Neg(a)  c = Tanh(b)  y = Tanh(c) }")
    wanted = results(model.ir, x=X)[0]

    def check(model_ir):
        return None if np.allclose(results(model_ir, x=X)[0], wanted) else "other numbers"

    ledger = {e.pass_name: e for e in run_pipeline(model, passes=rules(LIST), check=check).ledger}
    assert ledger["mine:negations"].applied
    assert "other numbers" in ledger["mine:tanhs"].rolled_back


def test_a_rule_that_fails_while_it_runs_is_named_with_its_line(rules, make_model):
    model = make_model("g (float[4] x) => (float[4] y) { s = Sigmoid(x)  y = Mul(x, s) }")
    broken = rules(SILU.replace("x.is_graph_input()", "x.is_no_method()"))
    (entry,) = run_pipeline(model, passes=broken).ledger
    assert re.search(r"mine\.py' in line 11: AttributeError: .*is_no_method", entry.rolled_back)


WRONG = (
    ("def pattern(op, x:\n", "not valid Python: line 1"),
    ("import math\nmath.sqrt(-1)\n", "in line 2: ValueError"),
    ("RULES = [1]\n", "not a list of onnxscript's RewriteRule objects"),
    ("RULES = []\n", "is empty"),
    ("x = 1\n", "contains no rules"),
    ("def pattern(op, x):\n    return unknown(x)\ndef replacement(op, x):\n    return x\n", "line 2: NameError"),
)


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_wrong_in_the_file_is_one_sentence(rules, text, said):
    with pytest.raises(InputError) as caught:
        rules(text)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_rules(tmp_path / "nothing.py")


def test_a_rule_that_makes_its_own_pattern_again_ends(rules, make_model):
    once, twice = "    return op.Relu(x)\n", "    return op.Relu(op.Relu(x))\n"
    (one,) = rules(f"def pattern(op, x):\n{once}\ndef replacement(op, x):\n{twice}")
    model = make_model("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    assert [node.op_type for node in one.apply(model.ir, PassContext()).model.graph] == ["Relu", "Relu"]
