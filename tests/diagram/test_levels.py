from edgeopt.diagram.outline import Edge, shape_label
from edgeopt.diagram.scene import diagram_of
from edgeopt.graph.analysis.records import Tensor
from tests.diagram.models import branching, chain, net


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
    assert shape_label(Tensor("ids", "int64", ("batch", None, 3))) == "[batch, ?, 3]"
