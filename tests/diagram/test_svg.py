from xml.etree import ElementTree as ET

from edgeopt.diagram.colours import colourings
from edgeopt.diagram.page import shortened, svg
from edgeopt.diagram.scene import Layout, diagram_of
from tests.diagram.models import branching, chain, net


def drawn(model, opened=()) -> str:
    diagram = diagram_of(*model)
    return svg(diagram, Layout(diagram).scene(opened), colourings(diagram.nodes)[0], "a model")


def test_the_picture_is_xml_with_a_box_for_each_node():
    tree = ET.fromstring(drawn(chain(3, "Conv Relu Add")))  # noqa: S314 - our own text
    texts = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Conv", "Relu", "Add", "n0", "n1", "n2", "x", "t2"} <= set(texts)


def test_names_with_markup_are_text():
    text = drawn(net(("<b>&", "Conv", "x", "y"), gives="y"))
    ET.fromstring(text)  # noqa: S314 - our own text
    assert "&lt;b&gt;&amp;" in text


def test_open_groups_are_frames():
    diagram = diagram_of(*branching())
    text = drawn(branching(), frozenset(diagram.groups()))
    assert text.count('class="frame"') == 3


def test_long_names_are_cut_in_their_middle():
    assert shortened("encoder_layer_0_attention", 11) == "encod…ntion"
