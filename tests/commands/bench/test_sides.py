import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.backends.base import TensorInfo
from edgeopt.commands.bench import sides
from edgeopt.commands.bench.bench import bench
from edgeopt.commands.bench.naming import NamedSide
from edgeopt.commands.bench.request import Request
from edgeopt.commands.bench.sides import Settings, chosen_cores, describe_all, narrowest, prepare, write_inputs
from edgeopt.data.samples import open_samples
from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt.events import ignore
from edgeopt.measure.messages import Load


def test_a_side_with_fixed_sizes_gets_samples_that_fit(conv_model, tmp_path):
    fixed = {"free_dimensions": "batch=2"}
    sides = [NamedSide("model", str(conv_model)), NamedSide("model", str(conv_model), None, fixed)]
    prepared = prepare(sides, Settings(), tmp_path, ignore)
    assert prepared.inputs.tensors[0].shape == (2, 3, 16, 16)
    assert open_samples(prepared.inputs.folder).feeds(0)["x"].shape == (2, 3, 16, 16)
    found = bench(Request(str(conv_model), ("free_dimensions=batch=2",), rounds=6), ignore)
    assert [side.failure for side in found.sides] == [None, None]
    assert all(side.figures for side in found.sides)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (("free_dimensions=batch=2", "free_dimensions=batch=3"), ModelError, "take different inputs"),
        (("free_dimensions=batsh=2",), UsageError, "no dimension named 'batsh'"),
    ],
)
def test_sizes_that_fit_nobody(conv_model, options, error, says):
    with pytest.raises(error, match=says):
        bench(Request(str(conv_model), options, rounds=6), ignore)


def test_the_narrowest_axes_of_all_and_the_names_of_the_rest():
    sides = [
        (TensorInfo("x", "float32", (None, 3, None)),),
        (TensorInfo("x", "float32", ("batch", "channels", 8)),),
        (TensorInfo("x", "float32", (), rank_known=False),),
        None,
    ]
    assert narrowest(sides, "abcd") == (TensorInfo("x", "float32", ("batch", 3, 8)),)
    assert narrowest([None], "a") is None


@pytest.mark.parametrize("backend", ["onnxruntime-cuda", "onnxruntime-tensorrt", "openvino-npu"])
def test_no_accelerator_is_opened_to_see_what_a_model_takes(backend, conv_model, tmp_path):
    (found,) = describe_all([Load(backend, str(conv_model), {}, "")], ["a"], tmp_path)
    assert [(tensor.name, tensor.shape[1:]) for tensor in found.inputs] == [("x", (3, 16, 16))]


@pytest.mark.processes
def test_a_model_that_loads_slowly_is_given_the_time_that_was_asked_for(null_model, tmp_path):
    slow = Load("null", str(null_model("slow", hang="load")), {}, "")
    with pytest.raises(ModelError, match="no answer within 1 s") as raised:
        describe_all([slow], ["slow"], tmp_path, 1.0)
    assert "--load-timeout" in raised.value.hint


@pytest.fixture
def inputless(tmp_path):
    value = helper.make_tensor("c", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    nodes = [
        helper.make_node("RandomNormal", [], ["r"], shape=[4]),
        helper.make_node("Constant", [], ["k"], value=value),
        helper.make_node("Add", ["r", "k"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "inputless.onnx")
    return tmp_path / "inputless.onnx"


def test_a_model_without_inputs_is_measured(inputless, tmp_path):
    found = bench(Request(str(inputless), ("threads=1",), rounds=6), ignore)
    assert all(side.figures and side.failure is None for side in found.sides)
    assert found.data == "none, the model takes no inputs"
    np.savez(tmp_path / "d.npz", x=np.ones((4, 3)))
    request = Request(str(inputless), rounds=6, data=tmp_path / "d.npz")
    assert bench(request, ignore).data == "none, the model takes no inputs"


def broken_archive(path):
    np.savez(path, x=np.ones((4, 3)))
    path.write_bytes(path.read_bytes()[:-40])
    return path


def damaged_archive(path):
    np.savez_compressed(path, x=np.arange(4000))
    text = bytearray(path.read_bytes())
    text[100:200] = bytes(100)
    path.write_bytes(text)
    return path


def broken_folder(path):
    folder = path.with_suffix("")
    folder.mkdir()
    (folder / "x.npy").write_bytes(b"no array")
    return folder


@pytest.mark.parametrize("make", [broken_archive, damaged_archive, broken_folder])
def test_data_that_cannot_be_read_is_said_where_only_a_program_takes_part(make, tmp_path):
    data = make(tmp_path / "d.npz")
    with pytest.raises(DataError) as raised:
        bench(Request(baseline_command="python mine.py", data=data), ignore)
    assert raised.value.hint


def test_few_samples_are_made_up_where_they_are_large(conv_model, tmp_path, monkeypatch):
    monkeypatch.setattr(sides, "_MAX_BYTES", 256 << 10)  # megabytes would say the same
    named = [NamedSide("model", "m.xml")]
    large = (TensorInfo("x", "uint8", (1, 100 << 10)),)

    class Place:
        model = tmp_path / "m.xml"

    found = write_inputs(named, [Place()], large, sides.Settings(), tmp_path)
    assert found.words == "2 generated samples"
    assert len(open_samples(found.folder)) == 2


@pytest.mark.parametrize("name", ["threads", "inter_threads", "compile_threads"])
def test_more_threads_than_can_get_on_are_refused(monkeypatch, name):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert chosen_cores({name: 16}) == ({name: 16}, ())
    with pytest.raises(UsageError, match=f"'{name}' must be at most 16 here"):
        chosen_cores({name: 17})


def test_no_device_has_cores_for_more_than_a_thousand_threads(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 512)
    with pytest.raises(UsageError, match="at most 1024"):
        chosen_cores({"threads": 1025})
