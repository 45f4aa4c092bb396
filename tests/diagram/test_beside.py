"""Two models as two drawings: what belongs together has one place, and each shows only its own nodes and edges."""

import shutil
from itertools import pairwise

import pytest
from msgspec import structs

from edgeopt.diagram.beside import DiagramModel, beside
from edgeopt.diagram.changes import change_entries, shared_backend
from edgeopt.diagram.colours import colourings
from edgeopt.diagram.merging import label_of, merged
from edgeopt.diagram.page import page, pair_graphs
from edgeopt.diagram.scene import Layout
from edgeopt.graph.analysis.records import OpTimeRow, OpTimes
from edgeopt.graph.diff import GraphDiff, NodeChange
from tests.diagram.models import branching, chain, net, node, tensor
from tests.diagram.test_page import ran

FIRST = net(
    ("pad", "Pad", "x", "p"), ("conv", "Conv", "p", "c"), ("norm", "BatchNormalization", "c", "n"),
    ("relu", "Relu", "n", "r"), ("end", "Abs", "r", "y"), gives="y",
)  # fmt: skip
SECOND = net(
    ("conv", "Conv", "x", "c"), ("relu", "Relu", "c", "r"), ("more", "Neg", "r", "m"), ("end", "Abs", "m", "y"),
    gives="y",
)  # fmt: skip
PARTNERS = tuple((label, label) for label in ("Conv 'conv'", "Relu 'relu'", "Abs 'end'"))
CHANGES = GraphDiff(
    1,
    (
        NodeChange("gone", "Pad 'pad'"),
        NodeChange("changed", "Conv 'conv'", "Conv 'conv'", "other weights"),
        NodeChange("fused into", "BatchNormalization 'norm'", "Conv 'conv'"),
        NodeChange("new", "Neg 'more'"),
    ),
)


def drawn(first=FIRST, second=SECOND, partners=PARTNERS, changes=CHANGES):
    pair = beside(DiagramModel(*first), DiagramModel(*second), partners, changes)
    return pair, pair.scenes(Layout(pair.both).scene(frozenset(pair.both.groups())))


def places(pair, scene, side):
    """Of each node, by its name in that model."""
    found = {}
    for box in scene.boxes:
        position = getattr(box.item, "position", None)
        if position is not None:
            found[pair.sides[side].nodes[position].name] = (box.left, box.top)
    return found


def edges(pair, scene, side):
    names = {path: each.name for each in pair.sides[side].nodes if (path := pair.both.wiring.paths[each.position])}
    return {
        (names[line.source], names[line.target]) for line in scene.lines if {line.source, line.target} <= {*names}
    }


def test_partners_have_the_same_place_and_each_side_shows_only_its_own_nodes():
    pair, scenes = drawn()
    first, second = (places(pair, scene, side) for side, scene in enumerate(scenes))
    assert set(first) == {"pad", "conv", "norm", "relu", "end"}
    assert set(second) == {"conv", "relu", "more", "end"}
    assert all(first[name] == second[name] for name in ("conv", "relu", "end"))
    assert first["conv"][1] < first["norm"][1] < first["relu"][1] < second["more"][1] < first["end"][1]
    assert (scenes[0].width, scenes[0].height) == (scenes[1].width, scenes[1].height)


def test_each_side_has_its_own_edges():
    pair, scenes = drawn()
    assert edges(pair, scenes[0], 0) == {("pad", "conv"), ("conv", "norm"), ("norm", "relu"), ("relu", "end")}
    assert edges(pair, scenes[1], 1) == {("conv", "relu"), ("relu", "more"), ("more", "end")}
    for scene in scenes:
        assert all(pair.both.values[line.value].name for line in scene.lines)


def test_a_node_that_was_taken_in_has_its_host_as_counterpart_and_a_removed_one_has_none():
    pair, _ = drawn()
    path = {each.name: pair.both.wiring.paths[each.position] for each in pair.sides[0].nodes}
    assert pair.counterpart(0, path["norm"]) == path["conv"]
    assert pair.counterpart(0, path["conv"]) == path["conv"]
    assert pair.counterpart(1, path["conv"]) == path["conv"]
    assert pair.counterpart(0, path["pad"]) is None


def test_partners_in_opposite_orders_become_two_entries_and_everything_comes_after_what_it_reads():
    first = net(("a", "Conv", "x", "ta"), ("b", "Relu", "ta", "y"), gives="y")
    second = net(("b", "Relu", "x", "tb"), ("a", "Conv", "tb", "y"), gives="y")
    partners = (("Conv 'a'", "Conv 'a'"), ("Relu 'b'", "Relu 'b'"))
    found = merged(first[0], second[0], partners)
    for side in ("first", "second"):
        order = [row.name for each in found if (row := getattr(each, side)) is not None]
        assert order == (["a", "b"] if side == "first" else ["b", "a"])
    assert len(found) == 3
    pair, (left, right) = drawn(first, second, partners, GraphDiff(2, ()))
    heights = [places(pair, scene, side) for side, scene in enumerate((left, right))]
    assert heights[0]["a"][1] < heights[0]["b"][1]
    assert heights[1]["b"][1] < heights[1]["a"][1]
    alone = next(at for at, each in enumerate(found) if each.second is None)
    counterpart = pair.counterpart(0, pair.both.wiring.paths[alone])
    assert pair.sides[1].nodes[pair.both.item(counterpart).position].name == found[alone].row.name


def test_branches_are_merged_too():
    rows, inputs, outputs = branching()
    longer = [*rows[:3], node(3, "more", "Relu", "b", "b2", "if/then_branch"), *rows[3:]]
    longer = [structs.replace(row, position=at) for at, row in enumerate(longer)]
    partners = tuple((label_of(row), label_of(row)) for row in rows if not row.inside)
    found = merged(rows, longer, partners)
    assert [(each.row.name, each.inside) for each in found if each.first is None] == [("more", "if/then_branch")]
    pair = beside(
        DiagramModel(rows, inputs, outputs), DiagramModel(longer, inputs, outputs), partners, GraphDiff(3, ())
    )
    scenes = pair.scenes(Layout(pair.both).scene(frozenset(pair.both.groups())))
    first, second = (places(pair, scene, side) for side, scene in enumerate(scenes))
    assert set(second) - set(first) == {"more"}
    assert all(second[name] == place for name, place in first.items())


def test_a_group_that_one_side_does_not_have_is_not_drawn_there_and_counts_are_of_each_side():
    first = chain(18, "Conv Relu Add Neg Exp Sqrt Abs Tanh Floor", "/block{0}/")
    rows, inputs, _ = chain(9, "Conv Relu Add Neg Exp Sqrt Abs Tanh Floor", "/block{0}/")
    rows = [structs.replace(row, name=f"/all/{at // 9}/n{at}") for at, row in enumerate(rows)]
    whole = [structs.replace(row, name=f"/all/{at // 9}/n{at}") for at, row in enumerate(first[0])]
    partners = tuple((label_of(row), label_of(row)) for row in rows)
    gone = GraphDiff(9, tuple(NodeChange("gone", label_of(row)) for row in whole[9:]))
    second = (rows, inputs, [tensor("t8")])
    pair = beside(DiagramModel(whole, inputs, first[2]), DiagramModel(*second), partners, gone)
    scenes = pair.scenes(Layout(pair.both).scene(frozenset()))
    groups = [[box.path for box in scene.boxes if hasattr(box.item, "title")] for scene in scenes]
    assert len(groups[0]) == len(groups[1]) + 1
    assert [pair.sides[0].nodes_count(path) for path in groups[0]] == [9, 9]
    assert [pair.sides[1].nodes_count(path) for path in groups[1]] == [9]
    ends = [[box.item.tensor.name for box in scene.boxes if hasattr(box.item, "tensor")] for scene in scenes]
    assert ends == [["x", "t17"], ["x", "t8"]]


def test_many_nodes_in_any_order_are_merged_without_losing_one():
    names = [f"n{at}" for at in range(40)]
    first = net(*((name, "Relu", "x", f"a{name}") for name in names), gives="an0")
    second = net(*((name, "Relu", "x", f"b{name}") for name in reversed(names)), gives="bn0")
    found = merged(first[0], second[0], tuple((f"Relu '{name}'", f"Relu '{name}'") for name in names))
    assert len(found) == 40
    assert all(each.first is not None and each.second is not None for each in found)
    assert all(each.first.name == each.second.name for each in found)


def timed(*kernels, backend="onnxruntime-cpu"):
    rows = tuple(OpTimeRow("k", "op", time_ms, 0.5, members) for time_ms, members in kernels)
    return OpTimes(backend, "", 1, 9, 1.0, sum(time_ms for time_ms, _ in kernels), 1.0, rows)


def test_each_change_says_the_time_it_saves_and_the_largest_comes_first():
    pair, _ = drawn()
    times = (
        (timed((2.0, ("pad",)), (5.0, ("conv",)), (3.0, ("norm",)), (1.0, ("relu",)), (1.0, ("end",))),),
        (timed((4.0, ("conv", "relu")), (0.5, ("more",)), (1.0, ("end",))),),
    )
    entries = change_entries(pair, CHANGES, times, "onnxruntime-cpu")
    assert [(each.status, each.saved_ms) for each in entries] == [("fused", 4.0), ("removed", 2.0), ("new", -0.5)]
    assert entries[0].first == ("Conv 'conv'", "BatchNormalization 'norm'")
    assert pair.sides[entries[1].side].nodes[entries[1].position].name == "pad"
    assert all(a.saved_ms >= b.saved_ms for a, b in pairwise(entries))


def test_without_times_of_one_runtime_for_both_nothing_is_said_to_be_saved():
    pair, _ = drawn()
    first, second = (timed((2.0, ("pad",))),), (timed((4.0, ("conv",)), backend="openvino-cpu"),)
    assert shared_backend(first, second) == ""
    entries = change_entries(pair, CHANGES, (first, second), shared_backend(first, second))
    assert [each.status for each in entries] == ["removed", "fused", "new"]
    assert all(each.saved_ms is None for each in entries)


def test_a_change_is_at_the_outer_node_where_one_in_a_branch_has_the_same_label():
    rows = [
        node(0, "if", "If", "x", "a"),
        node(1, "relu", "Relu", "x", "b", "if/then_branch"),
        node(2, "relu", "Relu", "a", "y"),
    ]
    gone = GraphDiff(0, (NodeChange("gone", "Relu 'relu'"),))
    pair, _ = drawn(first=(rows, [tensor("x")], [tensor("y")]), partners=(), changes=gone)
    (entry,) = change_entries(pair, gone, ((), ()), "")
    found = pair.sides[entry.side].nodes[entry.position]
    assert (found.name, found.inside) == ("relu", "")


def test_the_page_knows_the_counterpart_of_each_box():
    pair, _ = drawn()
    first, second = pair_graphs(pair, ("a", "b"), ((), ()))
    names = [[title(each.diagram, box) for box in each.scene.boxes] for side, each in enumerate((first, second))]
    counterparts = {
        name: names[1][other] if other >= 0 else "" for name, other in zip(names[0], first.partners, strict=True)
    }
    same = {name: name for name in ("x", "conv", "relu", "end", "y")}
    assert counterparts == {**same, "pad": "", "norm": "conv"}


def title(diagram, box):
    return box.item.tensor.name if hasattr(box.item, "tensor") else diagram.nodes[box.item.position].name


# Clicks the first operator of the second model, in the right half of the canvas.
CLICK = """
scale = 1; left = top_ = 0;
const at = models[1].boxes.findIndex((box) => box[5] === "Conv"), [x, y, w, h] = models[1].boxes[at];
left = x - 10; top_ = y - 10;
canvas.onpointerdown({ pointerId: 1, offsetX: 450 + 10 + w / 2, offsetY: 10 + h / 2 });
canvas.onpointerup({ offsetX: 450 + 10 + w / 2, offsetY: 10 + h / 2 });
const partner = models[0].boxes[models[1].partners[picked]];
draw();
const halves = pane();
byId("beside").onclick();
console.log(JSON.stringify({ name: models[1].name, halves, whole: pane(), partner: partner[5],
  alone: model.name, kept: model.boxes[picked][5] }));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="runs the page's script, which needs node")
def test_the_page_draws_both_and_a_click_selects_the_counterpart(tmp_path):
    pair, _ = drawn()
    colours = [colourings(side.nodes) for side in pair.sides]
    text = page("a and b", pair_graphs(pair, ("a", "b"), colours))
    found = ran(tmp_path, text, CLICK)
    assert (found["halves"], found["whole"]) == (450, 900)
    assert (found["partner"], found["alone"], found["kept"]) == ("Conv", "a", "Conv")
