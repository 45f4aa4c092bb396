from edgeopt.diagram.scene import Layout, diagram_of
from edgeopt_gui.pages.graph.walk import Walk
from tests.diagram.models import chain, net

BLOCK = "Conv Relu Add Mul Sigmoid Sub Div Abs Neg"


def walk_of(model, opened=()):
    diagram = diagram_of(*model)
    return Walk(diagram, Layout(diagram).scene(opened))


def test_up_and_down_follow_the_edges():
    walk = walk_of(chain(3, "A B C"))
    assert walk.down((1,)) == (2,)
    assert walk.up((1,)) == (0,)
    assert walk.up((0,)) is None


def test_ways_lead_through_the_border_of_an_open_group():
    walk = walk_of(chain(27, BLOCK), {(2,)})
    assert walk.up((2, 0)) == (1,)
    assert walk.down((1,)) == (2, 0)
    assert walk.down((2, 8)) == (3,)


def test_beside_is_the_next_box_at_the_same_height():
    walk = walk_of(
        net(
            ("a", "A", "x", "ta"),
            ("b", "B", "x", "tb"),
            ("c", "C", "x", "tc"),
            ("d", "D", "ta tb tc", "y"),
            gives="y",
        )
    )
    assert walk.beside((1,), to_the_right=True) == (2,)
    assert walk.beside((3,), to_the_right=False) == (2,)
    assert walk.beside((1,), to_the_right=False) is None


def test_a_node_in_a_folded_group_is_shown_by_the_group():
    walk = walk_of(chain(27, BLOCK))
    assert walk.shown((2, 4)) == (2,)
    assert walk.position((2,)) is None
