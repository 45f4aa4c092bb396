import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.errors import DiskFullError, ModelError
from edgeopt.graph.files import saving
from edgeopt.graph.model import load, save
from edgeopt.graph.pipeline import run_pipeline

ADD = "g (float[600] x) => (float[600] y) { a = Add(x, small)  y = Mul(a, w) }"


@pytest.fixture
def weighted(make_model):
    return make_model(ADD, w=np.arange(600, dtype=np.float32), small=np.float32([2]))


def values(model):
    return {name: value.const_value.numpy().copy() for name, value in model.ir.graph.initializers.items()}


def assert_same(first, second):
    assert list(first) == list(second), "weights keep their order"
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array)


def test_one_file_that_onnx_itself_reads_as_the_same_model(weighted, folder):
    save(weighted.ir, folder / "copy.onnx")
    source, copy = (onnx.load(path) for path in (weighted.path, folder / "copy.onnx"))
    assert copy.opset_import == source.opset_import
    for part in ("input", "output", "initializer"):
        assert getattr(copy.graph, part) == getattr(source.graph, part)
    assert [(n.op_type, *n.input) for n in copy.graph.node] == [(n.op_type, *n.input) for n in source.graph.node]
    onnx.checker.check_model(copy, full_check=True)


def test_saving_twice_gives_the_same_bytes(weighted, folder):
    save(weighted.ir, folder / "a.onnx")
    save(load(folder / "a.onnx").ir, folder / "b.onnx")
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


def test_weights_beside_the_model(weighted, folder, monkeypatch):
    monkeypatch.setattr(saving, "EXTERNAL_ABOVE_BYTES", 1000)
    save(weighted.ir, folder / "big.onnx")
    again = load(folder / "big.onnx")
    (data,) = again.external
    assert data.name.startswith("big.onnx.")
    assert_same(values(weighted), values(again))
    onnx.checker.check_model(str(folder / "big.onnx"), full_check=True)


def test_weights_beside_the_model_at_a_given_size(weighted, folder):
    save(weighted.ir, folder / "small.onnx", external_above_bytes=0)
    again = load(folder / "small.onnx")
    assert len(again.external) == 1
    assert_same(values(weighted), values(again))


@pytest.mark.parametrize("limit", [1000, 10**9])
def test_weights_go_from_file_to_file(external_model, folder, monkeypatch, limit):
    monkeypatch.setattr(saving, "EXTERNAL_ABOVE_BYTES", limit)
    model = load(external_model)

    def all_at_once(*_):
        raise AssertionError("a weight was read as a whole")

    monkeypatch.setattr(ir.ExternalTensor, "tobytes", all_at_once)
    monkeypatch.setattr(ir.ExternalTensor, "numpy", all_at_once)
    (folder / "elsewhere").mkdir()
    save(model.ir, folder / "elsewhere" / "copy.onnx")
    monkeypatch.undo()
    assert_same(values(model), values(load(folder / "elsewhere" / "copy.onnx")))


def test_large_weights_begin_on_a_page(make_model, folder, monkeypatch):
    monkeypatch.setattr(saving, "EXTERNAL_ABOVE_BYTES", 1000)
    monkeypatch.setattr(saving, "MAPPED_ABOVE_BYTES", 1000)
    weights = {name: np.full(600, k, np.float32) for k, name in enumerate("abc")}
    model = make_model(
        "g (float[600] x) => (float[600] y) { d = Add(x, a) e = Add(d, b) y = Add(e, c) }", **weights
    )
    save(model.ir, folder / "big.onnx")
    tensors = onnx.load(folder / "big.onnx", load_external_data=False).graph.initializer
    places = [int(entry.value) for t in tensors for entry in t.external_data if entry.key == "offset"]
    assert places == [0, 4096, 8192]


def external(name, array, folder):
    array.tofile(folder / f"{name}.bin")
    tensor = onnx.TensorProto(name=name, data_type=1, dims=array.shape, data_location=1)
    tensor.external_data.add(key="location", value=f"{name}.bin")
    return tensor


def test_constants_and_weights_of_subgraphs_come_along(write_model, folder):
    path = write_model("""g (bool c, float[600] x) => (float[600] y) {
        k = Identity(x)
        y = If (c) <then_branch = t () => (float[600] p) { p = Add(k, w) },
                    else_branch = e () => (float[600] q) { q = Neg(k) }> }""")
    proto = onnx.load(path)
    branch = next(a.g for a in proto.graph.node[1].attribute if a.name == "then_branch")
    branch.initializer.append(external("w", np.arange(600, dtype=np.float32), folder))
    constant = onnx.helper.make_node("Constant", [], ["k"])
    constant.attribute.add(name="value", type=4).t.CopyFrom(external("v", np.ones(600, np.float32), folder))
    proto.graph.node[0].CopyFrom(constant)
    path.write_bytes(proto.SerializeToString())
    (folder / "elsewhere").mkdir()
    save(load(path).ir, folder / "elsewhere" / "copy.onnx")
    copy = onnx.load(folder / "elsewhere" / "copy.onnx")
    assert not load(folder / "elsewhere" / "copy.onnx").external
    result = onnx.reference.ReferenceEvaluator(copy).run(
        None, {"c": np.array(True), "x": np.ones(600, np.float32)}
    )
    np.testing.assert_array_equal(result[0], np.arange(600) + 1)


def test_a_failed_save_leaves_the_older_file(weighted, folder, monkeypatch):
    target = folder / "kept.onnx"
    target.write_bytes(b"older")

    def no_space(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(DiskFullError, match=r"no room for .*kept"):
        save(weighted.ir, target)
    assert target.read_bytes() == b"older"
    assert not list(folder.glob(".kept*"))


def test_saving_into_a_folder_that_is_not_there(weighted, folder):
    with pytest.raises(ModelError, match="does not exist"):
        save(weighted.ir, folder / "missing" / "model.onnx")


def test_data_that_shrank_meanwhile_is_told(external_model, folder):
    model = load(external_model)
    os.truncate(folder / "weights.bin", 100)
    with pytest.raises(ModelError, match="'w' has 100 bytes; its type and shape need 1,600"):
        save(model.ir, folder / "copy.onnx")
    assert not (folder / "copy.onnx").exists()


def test_inner_shapes_are_left_to_the_runtime(make_model, shaped, tmp_path):
    text = """g (float[2] x, bool p) => (float[2] y) { a = Neg(x) y = If (p) <
        then_branch = t () => (float[2] u) { b = Exp(a) u = Abs(b) },
        else_branch = e () => (float[2] v) { v = Neg(a) } > }"""
    model = shaped(make_model(text))
    save(model.ir, tmp_path / "out.onnx")
    graph = onnx.load(tmp_path / "out.onnx").graph
    branch = next(a.g for a in graph.node[1].attribute if a.name == "then_branch")
    assert (list(graph.value_info), list(branch.value_info)) == ([], [])
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_a_body_keeps_the_shapes_that_the_file_declares_and_gets_no_others(write_model, folder):
    text = """g (int64 n, float[4] x) => (float[4] last, float[M,4] rows, float[M,4] others) {
        last, rows, others = Loop (n, , x) <body = b (int64 i, bool c, float[4] s)
            => (bool d, float[4] t, float[4] e, float[4] o) {
            d = Identity(c)  t = Neg(s)  e = Abs(t)  o = Identity(x) }> }"""
    path = write_model(text)
    proto = onnx.load(path)
    (body,) = (attribute.g for attribute in proto.graph.node[0].attribute if attribute.name == "body")
    body.output[3].type.tensor_type.ClearField("shape")
    onnx.save(proto, path)
    save(run_pipeline(load(path)).model_ir, folder / "result.onnx")
    (written,) = (a.g for a in onnx.load(folder / "result.onnx").graph.node[0].attribute if a.name == "body")
    for before, after in ((body.input, written.input), (body.output, written.output)):
        assert [value.type for value in after] == [value.type for value in before]


def test_sizes_that_the_file_gives_to_values_in_a_body_reach_its_open_outputs(write_model, folder):
    """ONNX Runtime takes them for what a loop of no turn collects: (0, 1, 4), not (0, 0, 0)."""
    text = """g (int64 n, float[2,4] x) => (float[M,K,L] rows) {
        last, rows = Loop (n, , x) <body = b (int64 i, bool c, float[P,Q] s)
            => (bool d, float[P,Q] t, float[P,Q] o)
            <int64[1] zero = {0}, int64[1] one = {1}, float[2,4] r> {
            d = Identity(c)  r = Relu(s)  t = Neg(r)  o = Slice(t, zero, one, zero) }> }"""
    path = write_model(text)
    proto = onnx.load(path)
    (body,) = (attribute.g for attribute in proto.graph.node[0].attribute if attribute.name == "body")
    for output in body.output[1:]:
        for dimension in output.type.tensor_type.shape.dim:
            dimension.Clear()
    onnx.save(proto, path)
    save(run_pipeline(load(path)).model_ir, folder / "result.onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    sessions = [
        onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        for file in (path, folder / "result.onnx")
    ]
    feeds = {"n": np.int64(0), "x": np.ones((2, 4), np.float32)}
    was, now = (session.run(None, {k: np.asarray(v) for k, v in feeds.items()})[0].shape for session in sessions)
    assert was == now == (0, 1, 4)
