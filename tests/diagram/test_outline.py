from msgspec import structs

from edgeopt.diagram.outline import (
    MAX_AT_A_GLANCE,
    MAX_CHILDREN,
    Edge,
    Leaf,
    OutlineGroup,
    leaves,
    outline,
    shape_label,
)
from edgeopt.diagram.scene import diagram_of
from edgeopt.graph.analysis.records import NodeRow, TensorFacts
from tests.diagram.models import branching, chain, net, node


def titles(group: OutlineGroup) -> list[str]:
    return [child.title if isinstance(child, OutlineGroup) else child.operator for child in group.children]


def test_nodes_of_one_scope_are_one_group():
    nodes, _, _ = net(
        ("/a/n0", "Conv", "x", "t0"),
        *[(f"/b/n{at}", "Relu", f"t{at}", f"t{at + 1}") for at in range(5)],
        gives="t5",
    )
    top = outline(nodes)
    assert titles(top) == ["Conv", "b"]
    assert list(leaves(top)) == list(range(6))


def test_a_node_without_scope_between_two_of_one_scope_belongs_to_it():
    nodes, _, _ = net(
        *[(f"/a/n{at}" if at != 2 else "made", "Relu", f"t{at}", f"t{at + 1}") for at in range(6)],
        ("end", "Conv", "t6", "t7"),
        gives="t7",
    )
    assert titles(outline(nodes)) == ["a", "Conv"]


def test_a_scope_around_everything_is_left_out():
    nodes, _, _ = chain(6, "Conv Relu Add Mul Sub Div", scope="/model/")
    assert titles(outline(nodes)) == ["Conv", "Relu", "Add", "Mul", "Sub", "Div"]


def test_blocks_that_repeat_are_groups_of_the_same_form():
    block = "Conv Relu Add Mul Sigmoid Sub Div Abs Neg"
    nodes, _, _ = chain(27, block)
    top = outline(nodes)
    assert titles(top) == ["block 1 of 3", "block 2 of 3", "block 3 of 3"]
    assert all(titles(child) == block.split() for child in top.children if isinstance(child, OutlineGroup))


def weighted(position: int, weight: str, reads: str, makes: str) -> NodeRow:
    row = node(position, f"node_{position}", "MatMul" if weight else "Relu", f"{reads} {weight}".strip(), makes)
    return structs.replace(row, weights_bytes=4 if weight else 0)


def test_where_names_are_no_paths_the_scopes_are_those_of_the_weights():
    rows, at = [], 0
    for layer in range(3):
        for part in ("query", "dense"):
            rows.append(weighted(at, f"m.encoder.layer.{layer}.{part}.weight", f"t{at}", f"t{at + 1}"))
            rows.append(weighted(at + 1, "", f"t{at + 1}", f"t{at + 2}"))
            at += 2
    rows += [weighted(12, "m.head.weight", "t12", "t13"), weighted(13, "", "t13", "y")]
    top = outline(rows)
    assert titles(top) == ["encoder", "MatMul", "Relu"]
    encoder = top.children[0]
    assert isinstance(encoder, OutlineGroup)
    assert titles(encoder) == ["layer.0", "layer.1", "layer.2"]
    assert list(leaves(encoder)) == list(range(12))


def test_the_bias_tells_the_scope_of_a_product_whose_weight_has_lost_its_name():
    rows = []
    for at in range(0, 60, 3):
        layer = f"m.encoder.layer.{at // 10}.dense"
        rows.append(weighted(at, f"val_{at}", f"t{at}", f"t{at + 1}"))
        rows.append(weighted(at + 1, f"{layer}.bias", f"t{at + 1}", f"t{at + 2}"))
        rows.append(weighted(at + 2, "", f"t{at + 2}", f"t{at + 3}"))
    first = outline(rows).children
    assert [next(leaves(child)) % 3 for child in first] == [0] * len(first)


def test_a_weight_that_several_layers_read_names_none_of_them():
    rows = []
    for at in range(0, 18, 2):
        rows.append(weighted(at, f"m.encoder.layer.{at // 6}.part_{at}.weight", f"t{at}", f"t{at + 1}"))
        rows.append(weighted(at + 1, "m.shared.norm.bias", f"t{at + 1}", f"t{at + 2}"))
    rows += [weighted(18, "m.head.weight", "t18", "t19"), weighted(19, "", "t19", "y")]
    (encoder,) = (child for child in outline(rows).children if isinstance(child, OutlineGroup))
    assert titles(encoder) == ["layer.0", "layer.1", "layer.2"]


def test_layers_that_repeat_keep_their_names():
    layers = [(f"/encoder/layer.{at // 10}/n{at}", f"Op{at % 10}", f"t{at}", f"t{at + 1}") for at in range(50)]
    nodes, _, _ = net(("first", "Gather", "x", "t0"), *layers, ("last", "Tanh", "t50", "y"), gives="y")
    encoder = outline(nodes).children[1]
    assert isinstance(encoder, OutlineGroup)
    assert titles(encoder) == [f"layer.{number}" for number in range(5)]


def test_weights_without_paths_make_no_scopes():
    rows = [weighted(at, f"onnx::MatMul_{at}.1", f"t{at}", f"t{at + 1}") for at in range(6)]
    assert titles(outline(rows)) == ["MatMul"] * 6


def test_a_level_with_too_many_boxes_is_cut_where_the_fewest_values_pass():
    operators = [f"Op{at}" for at in range(MAX_AT_A_GLANCE + 20)]
    rows = [(f"n{at}", operator, f"t{at} t{at // 10 * 10}", f"t{at + 1}") for at, operator in enumerate(operators)]
    nodes, _, _ = net(*rows, gives=f"t{len(rows)}")
    top = outline(nodes)
    assert titles(top)[0] == f"part 1 of {len(top.children)}"
    starts = [next(leaves(child)) for child in top.children]
    assert len(starts) < 12
    # No node makes `t0`, so that it passes nowhere.
    assert all(start % 10 == 0 for start in starts[2:]), starts


def test_a_long_run_without_any_pattern_is_cut_into_parts():
    operators = [f"Op{at}" for at in range(MAX_CHILDREN + 200)]
    nodes, _, _ = chain(len(operators), " ".join(operators))
    top = outline(nodes)
    assert len(top.children) <= MAX_CHILDREN
    assert list(leaves(top)) == list(range(len(operators)))


def test_the_branches_of_an_if_are_groups_within_it():
    nodes, _, _ = branching()
    holder = outline(nodes).children[1]
    assert isinstance(holder, OutlineGroup)
    assert holder.holder == 1
    assert titles(holder) == ["then_branch", "else_branch"]
    assert holder.nodes_count == 4


def test_slashes_in_names_do_not_split_a_branch():
    nodes = [
        node(0, "a/if", "If", "c", "y"),
        node(1, "a/b/n", "Abs", "x", "b", "a/if/then_branch"),
        node(2, "a/c/n", "Abs", "b", "d", "a/if/then_branch"),
    ]
    holder = outline(nodes).children[0]
    assert isinstance(holder, OutlineGroup)
    assert titles(holder) == ["then_branch"]


def test_constants_are_no_boxes():
    nodes, _, _ = net(("k", "Constant", "", "w"), ("n", "Add", "x w", "y"), gives="y")
    assert outline(nodes).children == (Leaf(1, "Add"),)


def test_inputs_and_outputs_are_connected_to_their_nodes():
    diagram = diagram_of(*chain(2))
    values = {value.name: index for index, value in enumerate(diagram.values)}
    assert set(diagram.wiring.levels[()].edges) == {
        Edge(0, 1, values["x"]),
        Edge(1, 2, values["t0"]),
        Edge(2, 3, values["t1"]),
    }


def test_a_value_that_enters_a_group_is_split_at_its_border():
    diagram = diagram_of(
        *net(
            ("first", "Conv", "x", "t0"),
            *[(f"/b/n{at}", "Relu", f"t{at}", f"t{at + 1}") for at in range(4)],
            ("last", "Add", "t0 t4", "y"),
            gives="y",
        )
    )
    values = {value.name: index for index, value in enumerate(diagram.values)}
    inner = diagram.wiring.levels[2,]
    assert inner.entering == (values["t0"],)
    assert inner.leaving == (values["t4"],)
    assert Edge(1, 2, values["t0"]) in diagram.wiring.levels[()].edges
    assert Edge(2, 3, values["t4"]) in diagram.wiring.levels[()].edges


def test_equal_names_in_two_branches_are_two_values():
    diagram = diagram_of(*branching())
    made = [value for value in diagram.values if value.name == "b"]
    assert {value.producer for value in made} == {2, 3}
    otherwise = diagram.wiring.levels[3, 1]
    own = [diagram.values[edge.value].producer for edge in otherwise.edges if edge.source is not None]
    assert own == [3]


def test_branches_read_what_is_made_outside():
    diagram = diagram_of(*branching())
    level = diagram.wiring.levels[3,]
    assert [diagram.values[value].name for value in level.entering] == ["a"]
    assert Edge(2, 3, level.entering[0]) in diagram.wiring.levels[()].edges


def test_the_label_of_a_value_is_its_shape():
    diagram = diagram_of(*chain(1))
    assert {value.label for value in diagram.values} == {"1x64x8x8"}
    assert shape_label(TensorFacts("ids", "int64", ("batch", None, 3))) == "[batch, ?, 3]"
