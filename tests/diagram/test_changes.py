from edgeopt.diagram.colours import CHANGED, FUSED, KEPT, NEW, REMOVED, change_colouring
from edgeopt.graph.diff import GraphDiff, NodeChange
from tests.diagram.models import chain

DIFF = GraphDiff(
    1,
    (
        NodeChange("changed", "Conv 'n0'", "Conv 'n0'", "other weights"),
        NodeChange("fused into", "Relu 'n1'", "Conv 'n0'"),
        NodeChange("gone", "Add 'n2'", "", "its result is nowhere"),
        NodeChange("new", "Sub 'n1'"),
    ),
)


def texts(operators, side):
    nodes, _, _ = chain(len(operators.split()), operators)
    return [fill.text.partition(":")[0] for fill in change_colouring(nodes, DIFF, side).fills if fill]


def test_nodes_of_the_first_model_are_kept_changed_fused_or_removed():
    found = texts("Conv Relu Add Mul", "first")
    assert found == [CHANGED, f"{FUSED} into Conv 'n0'", REMOVED, KEPT]


def test_a_node_of_the_second_model_names_what_it_took_in():
    nodes, _, _ = chain(3, "Conv Sub Mul")
    colouring = change_colouring(nodes, DIFF, "second")
    fills = [fill.text for fill in colouring.fills if fill]
    assert fills == ["fused: took in Relu 'n1'", NEW, KEPT]
    assert [fill.solid for fill in colouring.fills if fill] == [True, True, False]
    assert [word for _, word in colouring.legend] == [FUSED, NEW, KEPT]
