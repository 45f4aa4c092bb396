import importlib
import subprocess
import sys
from pathlib import Path

import onnx_ir as ir
import pytest

from edgeopt.graph import passes
from edgeopt.graph.passes import NAMES, standard_passes
from edgeopt.graph.passes.base import Notes, Pass, constant, label, node_count, passes_at, replace_value

ROOT = Path(__file__).parents[3]

CHAIN = "g (float[2] x) => (float[2] y) { a = Relu(x)  b = Identity(a)  y = Identity(b) }"


def test_every_pass_has_a_name_of_its_own_and_a_title_for_the_user():
    names = [p.name for p in standard_passes()]
    assert tuple(names) == NAMES  # each stands in the file that the registry names
    assert len(set(names)) == len(names)
    assert all(p.title for p in standard_passes())


def test_equal_sentences_are_told_once_with_all_their_nodes(make_model):
    notes = Notes()
    notes.refuse("too big", "Add 'a'")
    notes.refuse("too big", "Add 'b'", "Add 'a'")
    (refusal,) = notes.result(make_model(CHAIN).ir).refused
    assert refusal.nodes == ("Add 'a'", "Add 'b'")


def test_node_count_sees_subgraphs(make_model):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    assert node_count(make_model(text).ir) == 3


def test_a_node_without_a_name_is_called_by_its_output(make_model):
    assert label(make_model(CHAIN).ir.graph[0]) == "Relu 'a'"


def test_a_weight_that_is_an_input_is_not_constant(make_model):
    model = make_model("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", w=[1.0, 2.0])
    assert constant(model.ir.graph.inputs[1]) is None


def test_an_output_keeps_its_name_when_its_value_is_replaced(make_model):
    model = make_model(CHAIN).ir
    relu, _, last = list(model.graph)
    assert replace_value(last.outputs[0], relu.outputs[0]) is None
    assert [o.name for o in model.graph.outputs] == ["y"]
    assert model.graph.outputs[0].producer().op_type == "Relu"


def test_an_input_cannot_take_the_name_of_an_output(make_model):
    model = make_model("g (float[2] x) => (float[2] y) { y = Identity(x) }").ir
    assert "graph output" in replace_value(model.graph.outputs[0], model.graph.inputs[0])
    assert isinstance(model, ir.Model)
    assert [i.name for i in model.graph.inputs] == ["x"]


FOLDERS = ("cleaning", "algebra", "fusion", "layout")


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_file_of_a_folder_of_passes_is_registered_and_has_tests(folder):
    source, tests = (root / "graph" / "passes" / folder for root in (ROOT / "edgeopt", ROOT / "tests"))
    names = [path.stem for path in sorted(source.glob("*.py")) if path.stem != "__init__"]
    assert names
    for name in names:
        module = importlib.import_module(f"edgeopt.graph.passes.{folder}.{name}")
        found = [each for each in vars(module).values() if isinstance(each, Pass)]
        assert found
        assert set(found) <= set(standard_passes()), f"a pass of {name} is not registered"
        assert (tests / f"test_{name}.py").is_file()


def test_passes_come_in_the_order_of_their_places():
    found = passes_at(passes.__name__, ["cleaning.identities.PASS", "cleaning.redundant.DEAD_NODES"])
    assert [each.name for each in found] == ["identities", "dead-nodes"]


@pytest.mark.parametrize(
    ("place", "error", "says"),
    [
        ("cleaning.identities.NOBODY", AttributeError, r"cleaning\.identities' has no attribute 'NOBODY'"),
        ("cleaning.nowhere.PASS", ModuleNotFoundError, r"cleaning\.nowhere"),
    ],
)
def test_a_place_without_a_pass_is_named(place, error, says):
    with pytest.raises(error, match=says):
        passes_at(passes.__name__, [place])


def test_names_load_no_pass_and_the_first_call_loads_all():
    code = """
import sys
from edgeopt.backends import NAMES, lowering_names
from edgeopt.graph import passes
assert passes.NAMES and all(lowering_names(name) is not None for name in NAMES)
loaded = lambda: "edgeopt.graph.passes.cleaning.identities" in sys.modules
print(loaded(), len(passes.standard_passes()) == len(passes.NAMES), loaded())
print(passes.standard_passes() is passes.standard_passes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True"]
