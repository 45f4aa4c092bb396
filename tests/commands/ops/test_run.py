import msgspec
import pytest

from edgeopt.backends import backend_named
from edgeopt.commands.ops.cases import CASES
from edgeopt.commands.ops.run import measure, options_for
from edgeopt.events import ignore
from edgeopt.hw.device import Runtime
from tests.conftest import this_device

BACKENDS = ("onnxruntime-cpu", "openvino-cpu")
BY_NAME = {case.name: case for case in CASES}
NAMES = (
    "Relu int8 small",
    "Conv depth-wise 3x3 fp16 small",
    "Gather embedding fp32 medium",
    "LSTM bidirectional fp32 small",
    "Pad wrap fp32 small",
)


@pytest.fixture(scope="module")
def device():
    return this_device()


@pytest.fixture(scope="module")
def found(device):
    results = {}
    wanted = [(BY_NAME[name], BACKENDS) for name in NAMES]
    measure(wanted, device, ignore, lambda backend, case, made: results.update({(backend, case.name): made}))
    return results


def test_each_case_has_a_result_on_each_backend(found):
    assert set(found) == {(backend, name) for backend in BACKENDS for name in NAMES}


@pytest.mark.parametrize("name", NAMES[:-1])
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_conforms_has_a_time(found, backend, name):
    result = found[backend, name]
    assert (result.status, result.message) == ("conforms", "")
    assert 0 < result.time_low_us <= result.time_us <= result.time_high_us
    assert result.load_ms > 0
    assert result.moved_bytes > 0


def test_what_a_runtime_does_not_know_is_not_supported(found):
    assert found["onnxruntime-cpu", "Pad wrap fp32 small"].status == "conforms"
    result = found["openvino-cpu", "Pad wrap fp32 small"]
    assert result.status == "not supported"
    assert "wrap" in result.message
    assert result.time_us is None


CRASHES_AT_PAD = """
import os, signal, sys
from pathlib import Path
from edgeopt.workers.protocol import serve
from edgeopt.commands.ops.tasks import OpenOperator, OperatorRunner
from edgeopt.workers.tasks import TaskRunner

open_as_it_is = OperatorRunner.open

def crash(runner, request: OpenOperator):
    if b"Pad/" in Path(request.model_path).read_bytes():
        os.kill(os.getpid(), signal.SIGSEGV)
    return open_as_it_is(runner, request)

OperatorRunner.open = crash
serve(TaskRunner().answer)
"""


@pytest.mark.processes
def test_a_crash_is_the_result_of_its_case_alone(tmp_path, monkeypatch, device):
    (tmp_path / "planted_ops_crash.py").write_text(CRASHES_AT_PAD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("edgeopt.workers.host.WORKER_MODULE", "planted_ops_crash")
    names = ("Relu fp32 small", "Pad edge fp32 small", "Abs fp32 small")
    results = {}
    measure(
        [(BY_NAME[name], BACKENDS[:1]) for name in names],
        device,
        ignore,
        lambda _, case, made: results.update({case.name: made}),
    )
    assert [results[name].status for name in names] == ["conforms", "failed", "conforms"]
    assert results[names[1]].message == "Crashed: SIGSEGV."


def test_a_backend_is_asked_for_what_the_case_says(device):
    told = msgspec.structs.replace(device, runtimes=(Runtime("openvino", "1", capabilities={"CPU": ("FP16",)}),))
    assert options_for("openvino-cpu", told, "fp16")["precision"] == "f16"
    untold = msgspec.structs.replace(device, runtimes=())
    assert options_for("openvino-cpu", untold, "fp16")["precision"] == "f32"
    assert options_for("onnxruntime-cpu", untold, "fp16") == {"threads": device.limits.usable_cores}
    assert "threads" in backend_named("onnxruntime-cpu").options.__struct_fields__
