from edgeopt.graph.analysis.records import LARGEST, NodeRow, Tensor, WeightRow, largest, unknown_shapes


def node(operator, domain="", weights_bytes=0, shape=(1,)):
    return NodeRow(0, "", operator, domain, (), (Tensor("y", "float32", shape),), weights_bytes, 0)


def test_the_largest_weights_lead_and_the_list_ends():
    weights = [WeightRow(f"w{k}", "float32", (k,), 4 * k, k) for k in range(LARGEST + 5)]
    assert [row.name for row in largest(weights)[:2]] == [f"w{LARGEST + 4}", f"w{LARGEST + 3}"]
    assert len(largest(weights)) == LARGEST


def test_unknown_shapes_are_counted():
    assert unknown_shapes([node("Add")]) is None
    assert "1 of 2 intermediate" in unknown_shapes([node("Add"), node("NonZero", shape=None)])
