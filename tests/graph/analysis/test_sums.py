import pytest

from edgeopt.graph.analysis.cost import Call, Operand, cost_of
from edgeopt.graph.analysis.records import Cost, NodeRow, Tensor
from edgeopt.graph.analysis.sums import operator_rows, work


def node(operator, domain="", weights_bytes=0, shape=(1,)):
    own = {"counted_weights_bytes": weights_bytes}
    return NodeRow(0, "", operator, domain, (), (Tensor("y", "float32", shape),), weights_bytes, 0, **own)


def test_operators_are_counted_by_type_and_domain_most_frequent_first():
    rows = operator_rows(
        [node("Add"), node("Conv", weights_bytes=8), node("Conv", weights_bytes=4), node("Conv", "own")]
    )
    assert [(r.operator, r.domain, r.count, r.weights_bytes) for r in rows] == [
        ("Conv", "", 2, 12),
        ("Add", "", 1, 0),
        ("Conv", "own", 1, 0),
    ]


def reasons(*costs, operator="Relu"):
    rows = [NodeRow(0, f"n{k}", operator, "", (), (), 0, 0, cost=cost) for k, cost in enumerate(costs)]
    return work(rows, (None, "", 0), "", ()).unknown_reasons


@pytest.mark.parametrize("name", ["a", "it's", "{}", "domain "])
def test_nodes_with_a_tensor_of_unknown_shape_are_told_together(name):
    costs = [cost_of(Call("Relu", (Operand(each, None, 32),), (Operand("y", (1,), 32),))) for each in (name, "b")]
    assert reasons(costs[0]) == (f"Relu 'n0': the shape of '{name}' is known only at run time",)
    assert reasons(*costs) == ("Relu 'n0' and 1 more: the shape of a tensor is known only at run time",)


def test_other_quoted_words_are_kept():
    cost = Cost(unknown="its equation 'ij' does not fit its inputs")
    assert reasons(cost, cost) == ("Relu 'n0' and 1 more: its equation 'ij' does not fit its inputs",)


def test_what_holds_a_node_of_unknown_cost_is_not_counted_again():
    assert reasons(Cost(unknown="within: it is odd", unknown_within=True), operator="Loop") == ()
    assert len(reasons(Cost(unknown="within: it is odd"), operator="Loop")) == 1
