from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt import events
from edgeopt.errors import UsageError, VerificationError
from edgeopt.graph.ledger import Change, Refusal
from edgeopt.graph.passes import standard_passes
from edgeopt.graph.passes.base import Pass, PassResult
from edgeopt.graph.pipeline import NumericError, run_pipeline, select

PASSES = standard_passes()
DEFAULT = [p.name for p in PASSES if not p.on_request]
X = np.float32([[1, -2], [3, -4]])
TEXT = """g (float[2,2] x) => (float[2,2] y) {
    one = Constant <value_float = 1.0> ()  two = Add(one, one)
    a = Mul(x, two)  b = Identity(a)  dead = Exp(b)  c = Relu(b)  y = Relu(c) }"""


def planted(name, change, what="changed something"):
    """A pass that does one thing to the model, once."""

    def apply(model, context):
        model = model.clone()
        return PassResult(model, (Change(what),) if change(model) else ())

    return Pass(name, name, apply)


def relu_to_neg(model):
    """A bad pass: valid ONNX, other numbers."""
    for node in model.graph:
        if node.op_type == "Relu":
            node.op_type = "Neg"
            return True
    return False


def rename_output(model):
    model.graph.outputs[0].name = "z"
    return True


def forget_an_input(model):
    model.graph[-1].replace_input_with(0, None)
    return True


def crash(model):
    raise IndexError("list index out of range")


@pytest.fixture
def model(make_model):
    return make_model(TEXT)


@pytest.fixture
def check(model, results):
    """Whether a graph still computes what the source computes; counts its calls."""
    wanted = results(model.ir, x=X)[0]

    def compare(model_ir):
        compare.calls += 1
        got = results(model_ir, x=X)[0]
        return None if np.allclose(got, wanted, atol=1e-6) else f"off by {np.abs(got - wanted).max():.1f}"

    compare.calls = 0
    return compare


def entry(result, name):
    return next(e for e in result.ledger if e.pass_name == name)


def test_all_passes_together_give_the_same_results_with_fewer_nodes(model, check, kinds):
    result = run_pipeline(model, check=check)
    assert check.calls == 1
    assert kinds(result.model_ir) == ["Mul", "Relu"]
    assert [e.pass_name for e in result.ledger[: len(DEFAULT)]] == DEFAULT
    assert all(e.rolled_back is None for e in result.ledger)


def test_the_source_is_not_changed(model):
    before = ir.to_proto(model.ir).SerializeToString()
    run_pipeline(model)
    assert ir.to_proto(model.ir).SerializeToString() == before


def test_node_counts_in_the_ledger_join_up(model, kinds):
    ledger = run_pipeline(model).ledger
    assert ledger[0].nodes_before == 7
    assert all(a.nodes_after == b.nodes_before for a, b in pairwise(ledger))
    assert ledger[-1].nodes_after == 2


def test_only_and_skip(model, kinds):
    assert {e.pass_name for e in run_pipeline(model, only=["identities"]).ledger} == {"identities"}
    skipped = run_pipeline(model, skip=["identities", "fold-constants", "rewrite-patterns"])
    assert "Identity" in kinds(skipped.model_ir)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'dead-nodes'"):
        select(PASSES, only=["dead-node"])


FAULTS = (
    (rename_output, "it changed the outputs from y to z"),
    (forget_an_input, "it left an invalid graph"),
    (crash, "it failed with IndexError: list index out of range"),
)


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
def test_a_pass_that_breaks_the_graph_is_rolled_back(model, check, kinds, fault, reason):
    result = run_pipeline(model, passes=(planted("bad", fault), *PASSES), check=check)
    assert reason in entry(result, "bad").rolled_back
    assert entry(result, "bad").nodes_after == 7
    assert kinds(result.model_ir) == ["Mul", "Relu"]


@pytest.mark.parametrize("place", [0, 3, len(PASSES)])
def test_a_pass_that_changes_the_results_is_found_and_rolled_back(model, check, kinds, place):
    passes = (*PASSES[:place], planted("wrong", relu_to_neg), *PASSES[place:])
    said = []
    result = run_pipeline(model, passes=passes, check=check, emit=said.append)
    assert "rolled back: it changes the results (off by" in entry(result, "wrong").rolled_back
    assert kinds(result.model_ir) == ["Mul", "Relu"]
    assert check(result.model_ir) is None
    assert any(isinstance(e, events.Log) and "'wrong'" in e.message for e in said)


def test_two_wrong_passes_are_both_found(model, check):
    def relu_to_exp(graph):
        return relu_to_neg(graph) and setattr(graph.graph[-1], "op_type", "Exp") is None

    passes = (planted("wrong", relu_to_neg), *PASSES, planted("worse", relu_to_exp))
    result = run_pipeline(model, passes=passes, check=check)
    assert {e.pass_name for e in result.ledger if e.rolled_back} == {"wrong", "worse"}
    assert check(result.model_ir) is None


def test_a_model_that_never_agrees_with_itself_cannot_be_proved(model):
    with pytest.raises(VerificationError, match="does not repeat its results"):
        run_pipeline(model, check=lambda _: "noise")


def test_the_accuracy_is_asked_for_each_pass_that_changed_something(model):
    result = run_pipeline(model, measure=lambda _: NumericError(42.0, 0.5))
    assert {(e.snr_db, e.max_abs) for e in result.ledger if e.applied} == {(42.0, 0.5)}
    assert {e.snr_db for e in result.ledger if not e.applied} <= {None}


def test_a_pass_runs_again_only_on_a_model_that_it_has_not_seen(model):
    looked = []

    def look(name, change=lambda _: False):
        def apply(model_ir, context):
            looked.append(name)
            return planted(name, change).apply(model_ir, context)

        return Pass(name, name, apply)

    def drop_the_dead_node(model_ir):
        dead = [node for node in model_ir.graph if node.op_type == "Exp"]
        model_ir.graph.remove(dead, safe=True)
        return bool(dead)

    run_pipeline(model, passes=(look("first"), look("works", drop_the_dead_node), look("last")))
    assert looked == ["first", "works", "last", "first", "works"]


def test_a_refusal_that_no_longer_holds_is_not_told(model):
    def moody(model_ir, context):
        reason = () if len(list(model_ir.graph)) < 7 else (Refusal("there is a dead node"),)
        return PassResult(model_ir, (), reason)

    cured = run_pipeline(model, passes=(Pass("moody", "", moody), *PASSES))
    assert entry(cured, "moody").refused == ()
    alone = run_pipeline(model, passes=(Pass("moody", "", moody),))
    assert entry(alone, "moody").refused[0].reason == "there is a dead node"


def test_a_pass_on_request_runs_only_where_it_is_named(model, kinds):
    passes = (replace(planted("wild", relu_to_neg), on_request=True), *PASSES)
    assert "Neg" not in kinds(run_pipeline(model, passes=passes).model_ir)
    also = run_pipeline(model, passes=passes, also=["wild"])
    assert entry(also, "wild").applied
    assert len(also.ledger) > len(DEFAULT)
    with pytest.raises(UsageError, match="did you mean 'wild'"):
        select(passes, also=["wyld"])


def test_a_pass_that_changes_the_results_is_reported(model, check):
    guilty = []
    passes = (planted("wrong", relu_to_neg), *PASSES)
    result = run_pipeline(model, passes=passes, check=check, on_failure=guilty.append)
    assert guilty == ["wrong"]
    assert entry(result, "wrong").rolled_back.startswith("rolled back: it changes the results (off by")


def test_a_model_without_work_for_any_pass_is_walked_once(model):
    result = run_pipeline(run_pipeline_twice(model), measure=lambda _: NumericError(200.0, 0.0))
    assert not any(e.applied for e in result.ledger)


def run_pipeline_twice(model):
    return replace(model, ir=run_pipeline(model).model_ir)


def test_declared_shapes_of_outputs_stay_as_they_were(make_model):
    text = "g (float[2,2] x) => (float[N,M] y) { a = Identity(x)  y = Relu(a) }"
    result = run_pipeline(make_model(text))
    assert [str(dim) for dim in result.model_ir.graph.outputs[0].shape] == ["N", "M"]


def test_progress_is_told(model):
    said = []
    run_pipeline(model, emit=said.append)
    assert {e.message for e in said if isinstance(e, events.Progress)} >= set(DEFAULT)
