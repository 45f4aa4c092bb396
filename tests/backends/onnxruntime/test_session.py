import sys
import time

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.onnxruntime.provider import CPU, Provider
from edgeopt.backends.onnxruntime.session import PlacedNode, boundaries, file_nodes, load_session, placement
from edgeopt.errors import DataError, MissingExtraError, ModelError

pytest.importorskip("onnxruntime")
ORT = backend_named("onnxruntime-cpu")


def test_dynamic_dimensions_keep_their_names(onnx_file):
    session = ORT.load(onnx_file("batch"), {})
    assert session.inputs[0].shape == ("batch", 3)


def test_strings_go_in_and_out(onnx_file):
    session = ORT.load(onnx_file("str"), {})
    for array in (np.array(["ab", "é"]), np.array(["ab", "é"], dtype=object)):
        assert session.run({"x": array})["y"].tolist() == ["ab", "é"]


def test_what_is_not_a_string_is_not_made_one(onnx_file):
    session = ORT.load(onnx_file("str"), {})
    with pytest.raises(DataError, match="only strings"):
        session.run({"x": np.array(["a", None], dtype=object)})


def test_a_type_that_cannot_be_passed_is_refused_when_loading(onnx_file):
    with pytest.raises(ModelError, match="bfloat16"):
        ORT.load(onnx_file("bfloat16"), {})


def test_an_unknown_rank_takes_every_shape(onnx_file):
    nodes = [("Add", ["x", "x"], ["y"], {})]
    path = onnx_file(nodes=nodes, inputs=[("x", "float32", None)], outputs=[("y", "float32", None)])
    session = ORT.load(path, {})
    assert not session.inputs[0].rank_known
    for shape in ((), (2,), (2, 3)):
        assert session.run({"x": np.ones(shape, np.float32)})["y"].shape == shape


def test_a_weight_that_old_files_list_as_an_input_is_not_one(onnx_file):
    path = onnx_file(
        nodes=[("Add", ["x", "w"], ["y"], {})],
        inputs=[("x", "float32", [2]), ("w", "float32", [2])],
        outputs=[("y", "float32", [2])],
        weights={"w": np.ones(2, np.float32)},
    )
    session = ORT.load(path, {})
    x = np.zeros(2, np.float32)
    assert session.run({"x": x})["y"].tolist() == [1, 1]
    with pytest.raises(DataError, match="no input 'w'"):
        session.run({"x": x, "w": x})


def test_what_fails_inside_the_model_is_told_in_the_runtimes_words(onnx_file):
    ports = [("a", "float32", ["n"]), ("b", "float32", ["m"])]
    path = onnx_file(nodes=[("Add", ["a", "b"], ["y"], {})], inputs=ports, outputs=[("y", "float32", [None])])
    session = ORT.load(path, {})
    two, three = np.ones(2, np.float32), np.ones(3, np.float32)
    with pytest.raises(ModelError, match=r"could not run.*Add"):
        session.run({"a": two, "b": three})
    assert session.run({"a": two, "b": two})["y"].tolist() == [2, 2]


def test_the_runtimes_own_words_are_in_a_load_error(onnx_file):
    nodes = [("NoSuchOperator", ["x"], ["y"], {})]
    path = onnx_file(nodes=nodes, inputs=[("x", "float32", [1])], outputs=[("y", "float32", [1])])
    with pytest.raises(ModelError, match="NoSuchOperator"):
        ORT.load(path, {})


def test_without_the_package_the_extra_is_named(onnx_file, monkeypatch):
    path = onnx_file("batch")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError) as raised:
        ORT.load(path, {})
    assert raised.value.extra == "cpu"


@pytest.mark.slow
def test_a_run_costs_no_more_than_the_runtimes_own(onnx_file, in_turns):
    import onnxruntime

    path = onnx_file("batch")
    feeds = {"x": np.ones((1, 3), np.float32)}
    ours = ORT.load(path, {"threads": 1})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    theirs = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    assert in_turns(lambda: ours.run(feeds), lambda: theirs.run(None, feeds), time.perf_counter) < 1.3


ort = pytest.importorskip("onnxruntime")
AZURE = "AzureExecutionProvider"
OTHER = Provider(name="onnxruntime-other", title="", key=AZURE, options=OrtOptions, distributions=())


@pytest.fixture(autouse=True)
def azure():
    if AZURE not in ort.get_available_providers():
        pytest.skip("this build of ONNX Runtime has no second provider")


@pytest.fixture
def chain(onnx_file):
    """Four nodes in a row, of which one has no name."""
    import onnx

    nodes = [("Relu", [f"v{i}"], [f"v{i + 1}"], {}) for i in range(4)]
    path = onnx_file(nodes=nodes, inputs=[("v0", "float32", ["n"])], outputs=[("v4", "float32", ["n"])])
    model = onnx.load(path)
    model.graph.node[2].name = ""
    onnx.save(model, path)
    return path


def test_where_nodes_run_is_told_without_being_strict(chain):
    session = load_session(OTHER, chain, {}, strict=False, custom_ops=())
    placed = session.placement
    assert (placed.wanted, placed.nodes, placed.boundaries) == (AZURE, {CPU: 4}, 0)
    assert placed.fallen == ("Relu: Relu_0", "Relu: Relu_1", "Relu: unnamed", "Relu: Relu_3")
    assert session.run({"v0": np.array([-1, 2], np.float32)})["v4"].tolist() == [0, 2]


def test_a_strict_load_names_the_first_nodes(chain):
    with pytest.raises(ModelError, match=r"'own.onnx': 4 of 4 nodes do not run on Azure.*Relu_1.* and 1 more"):
        load_session(OTHER, chain, {}, strict=True, custom_ops=())


def test_on_the_processor_alone_there_is_nothing_to_tell(chain):
    session = backend_named("onnxruntime-cpu").load(chain, {}, strict=True)
    assert session.placement is None


def test_a_runtime_that_does_not_tell(chain):
    assert placement(object(), chain, AZURE) is None


def test_the_nodes_of_a_file_without_the_onnx_package(chain):
    nodes = file_nodes(chain)
    assert [node.name for node in nodes] == ["Relu_0", "Relu_1", "", "Relu_3"]
    assert nodes[1] == PlacedNode("Relu_1", "Relu", ("v1",), ("v2",))


def row(*places):
    """A row of nodes `n0`, `n1`, ... with where each of them runs; None: the runtime does not name it."""
    nodes = [PlacedNode(f"n{i}", f"Op{i}", (f"v{i}",), (f"v{i + 1}",)) for i in range(len(places))]
    return nodes, [(place, f"n{i}", f"Op{i}") for i, place in enumerate(places) if place]


@pytest.mark.parametrize(
    ("places", "count"),
    [
        (("G", "G", "G"), 0),
        (("G", "C", "G"), 2),
        (("C", "G", "G"), 1),
        # A node that the runtime folded away stands where its input comes from.
        (("G", None, "G"), 0),
        (("G", None, "C"), 1),
        ((None, "G", "C"), 1),
    ],
)
def test_values_that_go_from_one_provider_to_another(places, count):
    assert boundaries(*row(*places)) == count


def test_a_value_is_copied_once_for_all_who_read_it_there():
    nodes = [
        PlacedNode("a", "A", ("x",), ("v",)),
        *(PlacedNode(f"r{i}", "R", ("v",), (f"w{i}",)) for i in range(3)),
    ]
    assert boundaries(nodes, [("G", "a", "A"), *(("C", f"r{i}", "R") for i in range(3))]) == 1


def test_nodes_without_names_stand_with_their_operator():
    nodes = [PlacedNode("", "A", ("x",), ("v",)), PlacedNode("", "B", ("v",), ("w",))]
    assert boundaries(nodes, [("G", "", "A"), ("C", "", "B")]) == 1
    # The same operator in two places: nothing is known of this node.
    assert boundaries(nodes, [("G", "", "A"), ("C", "", "A"), ("C", "", "B")]) == 0


def test_a_node_that_was_taken_apart_keeps_its_name():
    nodes, _ = row("G", "C")
    assert boundaries(nodes, [("G", "n0_token_3", "Op0"), ("C", "n1", "Op1")]) == 1
