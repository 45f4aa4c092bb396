from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgeopt.diagram.layered import BoxSize, Link, NodePlacement, place


def placed(count: int, edges: list[tuple[int, int]]) -> NodePlacement:
    links = [Link(a, 20.0, b, 20.0, a) for a, b in edges]
    return place([BoxSize(40.0, 20.0)] * count, links)


graphs = st.integers(1, 25).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] < pair[1]),
            max_size=60,
            unique=True,
        ),
    )
)


@given(graphs)
def test_boxes_do_not_overlap_and_edges_go_down(graph: tuple[int, list[tuple[int, int]]]):
    count, edges = graph
    found = placed(count, edges)
    corners = found.corners
    for a in range(count):
        for b in range(a):
            apart = abs(corners[a][0] - corners[b][0]) >= 39.9 or abs(corners[a][1] - corners[b][1]) >= 19.9
            assert apart, (a, b, corners)
    for (source, target), route in zip(edges, found.routes, strict=True):
        assert route[0] == (corners[source][0] + 20.0, corners[source][1] + 20.0)
        assert route[-1] == (corners[target][0] + 20.0, corners[target][1])
        assert all(first[1] < second[1] for first, second in pairwise(route))
    assert all(0 <= x <= found.width - 39.9 and 0 <= y <= found.height - 19.9 for x, y in corners)


@given(graphs)
def test_long_edges_keep_clear_of_the_boxes_between(graph: tuple[int, list[tuple[int, int]]]):
    count, edges = graph
    found = placed(count, edges)
    for (source, target), route in zip(edges, found.routes, strict=True):
        for x, y in route[1:-1]:
            for box, (left, top) in enumerate(found.corners):
                inside = left < x < left + 39.9 and top < y < top + 19.9
                assert not inside or box in {source, target}


def test_a_chain_is_straight():
    found = placed(5, [(at, at + 1) for at in range(4)])
    assert len({x for x, _ in found.corners}) == 1


def test_a_node_at_the_end_leaves_the_rest_in_place():
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    before, after = placed(5, edges), placed(6, [*edges, (4, 5)])
    assert after.corners[:5] == before.corners


def test_what_reads_nothing_lies_just_above_its_reader():
    found = placed(4, [(0, 2), (2, 3), (1, 3)])
    tops = [top for _, top in found.corners]
    assert tops[1] == tops[2]


def test_those_of_the_last_layer_lie_at_the_bottom():
    links = [Link(0, 20.0, 1, 20.0, 0), Link(1, 20.0, 2, 20.0, 1), Link(0, 20.0, 3, 20.0, 0)]
    found = place([BoxSize(40.0, 20.0)] * 4, links, last=1)
    assert found.corners[3][1] == found.corners[2][1]


def test_those_of_the_first_layer_stay_at_the_top_and_their_edges_keep_clear():
    links = [
        Link(0, 20.0, 4, 20.0, 0),
        Link(1, 20.0, 2, 20.0, 1),
        Link(2, 20.0, 3, 20.0, 2),
        Link(3, 20.0, 4, 9.0, 3),
    ]
    found = place([BoxSize(40.0, 20.0)] * 5, links, first=2)
    assert found.corners[0][1] == found.corners[1][1] == 0.0
    assert len(found.routes[0]) == 6


@given(graphs)
def test_a_deep_graph_wraps_into_columns_without_overlaps(graph: tuple[int, list[tuple[int, int]]]):
    count, edges = graph
    chain = [(at, at + 1) for at in range(count + 59)]
    found = placed(count + 60, [*chain, *(edge for edge in edges if edge not in chain)])
    assert found.height < 2 * found.width + 400
    assert found.width < 4 * found.height
    for a, (left, top) in enumerate(found.corners):
        assert 0 <= left <= found.width - 39.9
        assert 0 <= top <= found.height - 19.9
        assert all(abs(left - x) >= 39.9 or abs(top - y) >= 19.9 for x, y in found.corners[:a])
    for route in found.routes:
        assert all(0 <= x <= found.width + 0.1 and 0 <= y <= found.height for x, y in route)
        for (x, y), (next_x, next_y) in pairwise(route):
            assert (
                next_y > y or abs(next_x - x) < 0.1 or abs(next_y - y) < 0.1
            )  # up only straight, between columns
