from edgeopt.graph.analysis.records import NodeRow, Tensor
from edgeopt.graph.analysis.sums import operator_rows


def node(operator, domain="", weights_bytes=0, shape=(1,)):
    return NodeRow(0, "", operator, domain, (), (Tensor("y", "float32", shape),), weights_bytes, 0)


def test_operators_are_counted_by_type_and_domain_most_frequent_first():
    rows = operator_rows(
        [node("Add"), node("Conv", weights_bytes=8), node("Conv", weights_bytes=4), node("Conv", "own")]
    )
    assert [(r.operator, r.domain, r.count, r.weights_bytes) for r in rows] == [
        ("Conv", "", 2, 12),
        ("Add", "", 1, 0),
        ("Conv", "own", 1, 0),
    ]
