import sys

import msgspec
import pytest
from onnx import TensorProto, helper, save

from edgeopt.backends import backend_named
from edgeopt.commands.analyze import coverage
from edgeopt.commands.analyze.coverage import CoverageCheck, installed
from edgeopt.commands.analyze.tasks import _boundaries
from edgeopt.errors import UsageError
from edgeopt.events import Progress
from edgeopt.hw.device import Runtime
from tests.conftest import this_device


def covered(path, *names, emit=lambda _: None):
    check = CoverageCheck(path, [backend_named(name) for name in names], named=True)
    return {row.backend: row for row in check.rows(emit)}


@pytest.fixture
def odd_model(tmp_path):
    """A Relu, and an operator that nobody knows."""
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in "xy"]
    rows = [helper.make_node("Relu", ["x"], ["r"], "r"), helper.make_node("Odd", ["r"], ["y"], "o", domain="mine")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    path = tmp_path / "odd.onnx"
    save(helper.make_model(helper.make_graph(rows, "g", *ports), opset_imports=opsets, ir_version=8), path)
    return path


def test_runtimes_that_run_everything(conv_model):
    pytest.importorskip("openvino")
    said = []
    found = covered(conv_model, "onnxruntime-cpu", "openvino-cpu", emit=said.append)
    assert list(found) == ["onnxruntime-cpu", "openvino-cpu"]
    for row in found.values():
        assert row.supported == row.total > 3
        assert (row.unsupported, row.boundaries, row.reason) == ((), 0, "")
        assert row.version
    assert [type(event) for event in said] == [Progress, Progress]


def test_an_operator_that_a_runtime_does_not_know_is_named(odd_model):
    row = covered(odd_model, "onnxruntime-cpu")["onnxruntime-cpu"]
    assert (row.supported, row.total, row.unsupported) == (1, 2, ("Odd: o",))
    assert "cannot load the model" in row.reason
    assert row.boundaries is None


def test_a_backend_that_cannot_be_used_here_is_left_out_unless_it_was_named(conv_model):
    names = ["onnxruntime-directml"]
    row = covered(conv_model, *names)[names[0]]
    assert "not available" in row.reason
    assert CoverageCheck(conv_model, [backend_named(names[0])]).rows() == ()


def test_a_file_that_a_backend_does_not_load(tmp_path):
    path = tmp_path / "m.xml"
    path.write_text("<net/>")
    assert "does not load OpenVINO models" in covered(path, "onnxruntime-cpu")["onnxruntime-cpu"].reason


@pytest.mark.processes
def test_a_runtime_that_crashes_at_the_model_is_a_row_with_the_reason(conv_model, tmp_path, monkeypatch):
    # A real process in the place of the child, which dies when it is asked.
    (tmp_path / "crashing_child.py").write_text("import os, sys\nsys.stdin.readline()\nos.kill(os.getpid(), 11)\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("edgeopt.workers.host.WORKER_MODULE", "crashing_child")
    row = covered(conv_model, "onnxruntime-cpu")["onnxruntime-cpu"]
    assert "SIGSEGV" in row.reason
    assert row.supported is None


@pytest.mark.processes
def test_a_runtime_that_hangs_is_not_waited_for(conv_model, tmp_path, monkeypatch):
    (tmp_path / "hanging_child.py").write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("edgeopt.workers.host.WORKER_MODULE", "hanging_child")
    monkeypatch.setattr(coverage, "_MIN_LIMIT_S", 0.1)
    row = covered(conv_model, "onnxruntime-cpu")["onnxruntime-cpu"]
    assert "hung: no answer" in row.reason


def test_installed_are_those_whose_package_is_here():
    assert "onnxruntime-cpu" in {backend.name for backend in installed()}
    assert "null" not in {backend.name for backend in installed()}


def test_names_are_taken_as_they_are_and_wrong_ones_are_told():
    assert [backend.name for backend in installed(["openvino-npu"])] == ["openvino-npu"]
    with pytest.raises(UsageError, match="no backend 'onnxruntime-gpu'"):
        installed(["onnxruntime-gpu"])
    with pytest.raises(UsageError, match="for tests"):
        installed(["null"])


def test_boundaries_are_counted_where_the_file_knows_the_nodes(conv_model):
    assert _boundaries(conv_model, ()) == 0
    # x -> Conv -> [Relu] -> Identity: into the Relu and out of it.
    assert _boundaries(conv_model, ("Relu: Relu_1",)) == 2
    assert _boundaries(conv_model, ("FusedConv: made_up",)) is None


def test_a_choice_among_devices_is_asked_only_where_there_is_one():
    pytest.importorskip("openvino")
    for devices, there in (({"CPU": "a"}, False), ({"CPU": "a", "GPU": "b"}, True)):
        device = msgspec.structs.replace(this_device(), runtimes=(Runtime("openvino", "1", devices=devices),))
        assert ("openvino-auto" in {each.name for each in installed((), device)}) == there
