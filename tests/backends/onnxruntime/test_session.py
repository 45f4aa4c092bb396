import sys
import time

import numpy as np
import pytest

from edgeopt.backends import backend_named
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
