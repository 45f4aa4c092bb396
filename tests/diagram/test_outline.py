from edgeopt.diagram.outline import MOST_CHILDREN, Group, Leaf, leaves, outline
from tests.diagram.models import branching, chain, net, node


def titles(group: Group) -> list[str]:
    return [child.title if isinstance(child, Group) else child.operator for child in group.children]


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
    assert all(titles(child) == block.split() for child in top.children if isinstance(child, Group))


def test_a_long_run_without_any_pattern_is_cut_into_parts():
    operators = [f"Op{at}" for at in range(MOST_CHILDREN + 200)]
    nodes, _, _ = chain(len(operators), " ".join(operators))
    top = outline(nodes)
    assert len(top.children) <= MOST_CHILDREN
    assert list(leaves(top)) == list(range(len(operators)))


def test_the_branches_of_an_if_are_groups_within_it():
    nodes, _, _ = branching()
    holder = outline(nodes).children[1]
    assert isinstance(holder, Group)
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
    assert isinstance(holder, Group)
    assert titles(holder) == ["then_branch"]


def test_constants_are_no_boxes():
    nodes, _, _ = net(("k", "Constant", "", "w"), ("n", "Add", "x w", "y"), gives="y")
    assert outline(nodes).children == (Leaf(1, "Add"),)
