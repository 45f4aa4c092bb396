from edgeopt_gui.pages.model.links import Links
from edgeopt_gui.pages.model.nodes import Nodes
from edgeopt_gui.pages.model.work import Totals, totals
from tests.diagram.models import net

DIAMOND = net(
    ("a", "A", "x", "t"), ("b", "B", "t w", "l"), ("c", "C", "t", "r"), ("d", "D", "l r", "y"), gives="y"
)


def test_an_input_leads_to_its_maker_and_an_output_to_its_readers():
    links = Links.of(DIAMOND[0])
    assert links.positions(links.of_input("l")) == [1]
    assert links.positions(links.of_output("t")) == [1, 2]
    assert links.of_input("w") == links.of_input("x") == links.of_output("y") == ""


def test_a_click_on_a_tensor_goes_to_the_node_that_makes_it(qtbot, analysis):
    nodes = Nodes()
    qtbot.addWidget(nodes)
    nodes.set_nodes(analysis.nodes, totals(analysis))
    gemm = next(node for node in analysis.nodes if node.operator == "Gemm")
    nodes.pick(gemm.position)
    fact = next(fact for fact in nodes.details.groups[0].facts if fact.name == "Input" and fact.link)
    nodes.details.followed.emit(fact.link)
    made = nodes.table.current
    assert gemm.inputs[0].name in {tensor.name for tensor in made.outputs}


def test_a_tensor_that_several_nodes_read_lists_them(qtbot):
    nodes = Nodes()
    qtbot.addWidget(nodes)
    nodes.set_nodes(DIAMOND[0], Totals())
    nodes.follow("read by t")
    assert [node.name for node in nodes.records.shown] == ["b", "c"]
    assert nodes.all.text() == "Only read by t: show all"
