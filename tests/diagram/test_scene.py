from itertools import pairwise

import pytest
from msgspec import structs

from edgeopt.diagram.figures import group_figures
from edgeopt.diagram.outline import OutlineGroup, leaves
from edgeopt.diagram.scene import (
    LEVELS,
    MAX_BOXES,
    End,
    Layout,
    Scene,
    diagram_of,
    level_at_first,
    opened_at,
    opened_at_first,
)
from edgeopt.graph.analysis.records import Cost
from tests.diagram.models import branching, chain, net

BLOCK = "Conv Relu Add Mul Sigmoid Sub Div Abs Neg"


def overlaps(scene: Scene) -> list[tuple[int, int]]:
    found = []
    for a, one in enumerate(scene.boxes):
        for b, other in enumerate(scene.boxes[:a]):
            nested = one.path[: len(other.path)] == other.path
            apart = (
                one.left + one.width <= other.left
                or other.left + other.width <= one.left
                or one.top + one.height <= other.top
                or other.top + other.height <= one.top
            )
            if not nested and not apart:
                found.append((a, b))
    return found


def test_a_folded_group_is_one_box_and_an_open_one_holds_its_nodes():
    diagram = diagram_of(*chain(27, BLOCK))
    layout = Layout(diagram)
    folded, opened = layout.scene(()), layout.scene({(1,)})
    assert len(folded.boxes) == 5
    assert len(opened.boxes) == 14
    frame = next(box for box in opened.boxes if box.path == (1,))
    inner = [box for box in opened.boxes if box.path[:1] == (1,) and len(box.path) == 2]
    assert frame.is_open
    assert all(frame.left <= box.left and box.left + box.width <= frame.left + frame.width for box in inner)
    assert all(frame.top < box.top and box.top + box.height < frame.top + frame.height for box in inner)
    assert not overlaps(opened)


def test_lines_meet_at_the_border_of_an_open_group():
    diagram = diagram_of(*chain(27, BLOCK))
    scene = Layout(diagram).scene({(2,)})
    frame = next(box for box in scene.boxes if box.path == (2,))
    outer = next(line for line in scene.lines if line.target == (2,))
    inner = next(line for line in scene.lines if line.source is None and line.value == outer.value)
    assert outer.knots[-1] == inner.knots[0]
    assert outer.knots[-1][1] == frame.top


def test_equal_blocks_are_laid_out_once():
    diagram = diagram_of(*chain(27, BLOCK))
    layout = Layout(diagram)
    layout.scene(frozenset(diagram.groups()))
    # The first block reads the model's input, all others what the block before made: one form, and the whole.
    assert len(layout._placements) == 2


def test_a_group_in_a_folded_group_is_not_shown():
    diagram = diagram_of(*branching())
    scene = Layout(diagram).scene({(3, 1)})
    assert {box.path for box in scene.boxes} == {box.path for box in Layout(diagram).scene(()).boxes}


def test_a_small_model_is_open_at_first_and_a_large_one_shows_few_boxes():
    small = diagram_of(*chain(27, BLOCK))
    assert opened_at_first(small) == frozenset(small.groups())
    large = diagram_of(*chain(5000, BLOCK, scope="/stage{0}/"))
    assert len(Layout(large).scene(opened_at_first(large)).boxes) <= MAX_BOXES + 1


def test_levels_open_ever_more():
    diagram = diagram_of(*chain(90, BLOCK, scope="/model/stage{0}/"))
    sizes = [len(Layout(diagram).scene(opened_at(diagram, level)).boxes) for level in LEVELS]
    assert sizes == sorted(sizes)
    assert opened_at(diagram, "nodes") == frozenset(diagram.groups())
    layers = opened_at(diagram, "layers")
    assert all(path[:-1] in layers for path in diagram.groups() if len(path) > 1)


@pytest.mark.parametrize("scope", ["", "/stage{0}/"])
def test_five_thousand_nodes_open_as_few_blocks_in_a_shape_that_fits_a_window(scope):
    diagram = diagram_of(*chain(5000, "Conv Relu Add Mul", scope=scope))
    assert level_at_first(diagram) == "blocks"
    scene = Layout(diagram).scene(opened_at(diagram, "blocks"))
    assert len(scene.boxes) <= 100
    assert 0.4 < scene.width / scene.height < 4


def test_a_group_has_the_work_weights_and_outputs_of_its_nodes():
    nodes, inputs, outputs = chain(27, BLOCK)
    costs = [Cost(operations=1_000_000, read_bytes=1024, written_bytes=0)] * len(nodes)
    nodes = [structs.replace(row, cost=cost, weights_bytes=100) for row, cost in zip(nodes, costs, strict=True)]
    found = dict(group_figures(diagram_of(nodes, inputs, outputs), (1,)))
    assert found == {
        "Nodes": "9",
        "Work": "9.0 million operations",
        "Moved": "9 KiB",
        "Weights": "900 bytes",
        "Output": "1x64x8x8",
    }
    nodes[0] = structs.replace(nodes[0], cost=Cost())
    found = dict(group_figures(diagram_of(nodes, inputs, outputs), (1,)))
    assert found["Work"] == "at least 8.0 million operations"


@pytest.mark.parametrize("max_boxes", [10, 20, 30, 40, 60, 100, 300])
def test_equal_blocks_are_opened_alike(max_boxes):
    """Whatever there is room for."""
    diagram = diagram_of(*chain(90, BLOCK, scope="/stage{0}/"))
    opened = opened_at_first(diagram, max_boxes)
    for _, paths in alike(diagram):
        assert len({path in opened for path in paths}) == 1


def test_the_blocks_of_a_transformer_are_opened_alike():
    """As minilm_l6 has them: between them and around them are nodes that are no block."""
    first = "Gather Add LayerNormalization Unsqueeze Cast Sub Mul"
    block = (
        "MatMul Add Reshape Transpose MatMul Div Add Softmax MatMul Transpose Reshape MatMul Add Gelu MatMul Add"
    )
    nodes = [*first.split(), *(operator for _ in range(6) for operator in block.split()), "Tanh"]
    diagram = diagram_of(*chain(len(nodes), " ".join(nodes)))
    (paths,) = [paths for _, paths in alike(diagram)]
    assert len(paths) == 6
    room = diagram.count(()) + 3 * len(block.split())
    assert not opened_at_first(diagram, room) & set(paths)
    assert set(paths) <= opened_at_first(diagram, room + 3 * len(block.split()))


def alike(diagram):
    """Groups whose nodes have the same operators in the same order, two or more of them."""
    found = {}
    for path in diagram.groups():
        operators = tuple(diagram.nodes[position].operator for position in leaves(diagram.item(path)))
        found.setdefault((len(path), operators), []).append(path)
    return [(operators, paths) for operators, paths in found.items() if len(paths) > 1]


def test_inputs_come_first_and_outputs_last():
    scene = Layout(diagram_of(*chain(3, "A B C"))).scene(())
    ends = [box for box in scene.boxes if isinstance(box.item, End)]
    assert [box.item.is_input for box in ends if isinstance(box.item, End)] == [True, False]
    assert ends[0].top == min(box.top for box in scene.boxes)
    assert ends[1].top == max(box.top for box in scene.boxes)


def test_lines_keep_clear_of_boxes_in_open_groups():
    steps = [(f"/b/n{at}", "Relu", f"t{at}", f"t{at + 1}") for at in range(6)]
    model = net(("first", "Conv", "x", "t0"), *steps, ("/b/last", "Add", "t0 t6", "y"), gives="y")
    scene = Layout(diagram_of(*model)).scene({(2,)})
    for line in scene.lines:
        for (x, top), (other, bottom) in pairwise(line.knots):
            for box in scene.boxes:
                beside = max(x, other) <= box.left or min(x, other) >= box.left + box.width
                apart = bottom <= box.top or top >= box.top + box.height
                assert beside or apart or box.is_open, (line, box)


def test_every_node_of_an_opened_model_has_a_box():
    diagram = diagram_of(*branching())
    scene = Layout(diagram).scene(frozenset(diagram.groups()))
    shown = {box.path for box in scene.boxes}
    assert all(path in shown for path in diagram.wiring.paths.values())
    assert not overlaps(scene)
    assert any(isinstance(box.item, OutlineGroup) and box.is_open for box in scene.boxes)
