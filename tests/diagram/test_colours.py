from msgspec import structs

from edgeopt.diagram.colours import (
    CATEGORIES,
    CHANGED,
    FUSED,
    KEPT,
    NEW,
    REMOVED,
    Colouring,
    change_colouring,
    colourings,
)
from edgeopt.diagram.outline import Leaf, outline
from edgeopt.graph.analysis.records import Cost, OpTimeRow, OpTimes
from edgeopt.graph.diff import GraphDiff, NodeChange
from tests.diagram.models import chain, net

BLOCK = "Conv Relu Add Mul Sigmoid Sub Div Abs Neg"


def times(*rows: tuple[float, tuple[str, ...]]) -> OpTimes:
    kernels = tuple(OpTimeRow("k", "op", ms, 0.5, members) for ms, members in rows)
    return OpTimes("openvino-cpu", "1", None, 1, 1.0, 1.0, 1.0, kernels)


def by_key(found: tuple[Colouring, ...], key: str) -> Colouring:
    return next(each for each in found if each.key == key)


def test_the_time_of_a_fused_kernel_counts_once():
    nodes, _, _ = chain(18, BLOCK)
    measured = by_key(colourings(nodes, [times((2.0, ("n0", "n1")), (1.0, ("n2",)))]), "ms:openvino-cpu")
    assert measured.amounts is not None
    assert measured.amounts[:4] == (2.0, 0.0, 1.0, None)
    block = outline(nodes).children[0]
    fused = measured.fills[1]
    assert fused is not None
    assert fused.text == "fused"
    fill = measured.of(block)
    assert fill is not None
    assert fill.text == "3 ms"


def test_what_takes_longest_has_the_strongest_colour():
    nodes, _, _ = chain(3)
    measured = by_key(colourings(nodes, [times((0.5, ("n0",)), (2.0, ("n1",)))]), "ms:openvino-cpu")
    first, second = measured.fills[0], measured.fills[1]
    assert first is not None
    assert second is not None
    assert second.colour == measured.legend[-1][0] != first.colour
    assert (first.text, second.text) == ("500 µs", "2 ms")


def test_only_what_is_known_can_be_chosen():
    nodes, _, _ = chain(3)
    assert [each.key for each in colourings(nodes)] == ["category", "bytes", "precision"]


def test_a_group_has_the_colour_of_its_sum_and_of_the_category_with_most_work():
    nodes, _, _ = chain(18, BLOCK)
    found = colourings(nodes)
    block = outline(nodes).children[0]
    category = by_key(found, "category").of(block)
    assert category is not None
    assert (category.text, category.solid) == ("mostly element-wise", True)
    worked = [structs.replace(nodes[0], cost=Cost(operations=100)), *nodes[1:]]
    category = by_key(colourings(worked), "category").of(block)
    assert category is not None
    assert category.text == "mostly convolution"
    fill = by_key(found, "bytes").of(block)
    assert fill is not None
    assert fill.text == "540 bytes"


def test_a_node_without_a_name_is_measured_by_its_output():
    nodes, _, _ = net(("", "Conv", "x", "t0"), ("", "Relu", "t0", "y"), gives="y")
    measured = by_key(colourings(nodes, [times((2.0, ("t0",)))]), "ms:openvino-cpu")
    assert measured.amounts == (2.0, None)


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


def test_the_strongest_colour_is_that_of_the_largest_group_in_sight():
    nodes, _, _ = chain(18, BLOCK)
    of_bytes = by_key(colourings(nodes), "bytes")
    groups = outline(nodes).children
    scaled = of_bytes.scaled_to(groups)
    colours = [fill.colour for fill in map(scaled.of, groups) if fill is not None]
    assert colours[1] == scaled.legend[-1][0] != colours[0]
    assert scaled.of(Leaf(17, "Neg")).colour != of_bytes.of(Leaf(17, "Neg")).colour


def test_every_category_has_a_colour_of_its_own():
    assert len(set(CATEGORIES.values())) == len(CATEGORIES)
