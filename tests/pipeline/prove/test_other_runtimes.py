"""For which runtimes the accuracy of a plain ONNX file is claimed."""

import numpy as np
import pytest

from edgeopt.backends.intended import intended
from edgeopt.cli.quantize import about
from edgeopt.data.judging.goals import NO_FLOOR, goal_from
from edgeopt.errors import TrialError
from edgeopt.pipeline.prove import quantized as module
from edgeopt.pipeline.quantize import quantize_model
from edgeopt.quant.measured.proof import ContestResult
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns
from tests.conftest import seeded, write_onnx

TWENTY = goal_from(None, "20dB")
ORT, OPENVINO = "onnxruntime-cpu", "openvino-cpu"


@pytest.fixture(autouse=True)
def untimed(monkeypatch):
    monkeypatch.setattr(module, "compared", lambda *_: ContestResult({}))


@pytest.fixture
def loud_channel(tmp_path):
    """A product that ignores its loudest channel, for which one scale must leave the others no steps."""
    weight = seeded(32, 64, seed=1)
    weight[0] = 0
    nodes = [("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["r"], {}), ("MatMul", ["r", "v"], ["y"], {})]
    weights = {"w": weight, "v": seeded(64, 8, seed=2)}
    path = write_onnx(tmp_path / "loud.onnx", nodes, weights, {"x": ["b", 32]}, {"y": ["b", 8]})
    samples = seeded(64, 1, 32, seed=3)
    samples[..., 0] *= 1e6
    np.savez(tmp_path / "loud.npz", x=samples)
    return path, tmp_path / "loud.npz"


@pytest.fixture
def written(stack_model, stack_data, tmp_path):
    def work(**wishes):
        given = {"method": "int8-dynamic", "backend": ORT, "goal": TWENTY, **wishes}
        return quantize_model(QuantizeRequest(stack_model, tmp_path / "out.onnx", stack_data, **given))

    return work


@pytest.fixture
def spoiled(monkeypatch):
    """Makes a runtime answer otherwise, except to the source."""

    def work(name, answer):
        plain = ModelRuns.outputs

        def outputs(self, path, backend, options, feeds):
            found = plain(self, path, backend, options, feeds)
            return [answer(one) for one in found] if backend == name and path.name != "stack.onnx" else found

        monkeypatch.setattr(ModelRuns, "outputs", outputs)

    return work


def test_sixteen_bits_are_proved_where_they_are_computed(loud_channel, tmp_path):
    model, data = loud_channel
    found = quantize_model(QuantizeRequest(model, tmp_path / "out.onnx", data, method="a16w8"))
    assert found.outcome == "keep float", found.summary
    assert found.backend == ORT
    assert found.proof.snr_db < 3
    assert any("does not compute with activations of 16 bits" in said for said in found.warnings)


def test_file_is_proved_in_the_other_runtime_too(written, tmp_path):
    found = written()
    (other,) = found.elsewhere
    assert (other.backend, other.meets_goal) == (OPENVINO, True)
    assert other.proof.samples == found.proof.samples
    made_for = intended(tmp_path / "out.onnx")
    assert (made_for.proved, made_for.not_proved) == ((OPENVINO,), {})
    assert any(line.startswith(f"In {OPENVINO} with default options: ") for line in about(found))
    assert not any("Not proved" in said for said in found.warnings)


def test_file_says_where_it_is_below_the_goal(written, spoiled, tmp_path):
    spoiled(OPENVINO, lambda one: {name: 0 * array for name, array in one.items()})
    found = written()
    assert found.outcome == "written"
    assert not found.elsewhere[0].meets_goal
    assert any(
        said.startswith(f"Not proved in {OPENVINO} with default options: it reaches 0.0 dB")
        for said in found.warnings
    )
    made_for = intended(tmp_path / "out.onnx")
    assert made_for.proved == ()
    assert made_for.not_proved[OPENVINO].startswith("reaches 0.0 dB")
    assert any(line.endswith("not proved.") and OPENVINO in line for line in about(found))


def test_file_says_where_it_does_not_run(written, spoiled, tmp_path):
    def fail(_):
        raise TrialError("No kernel for it.")

    spoiled(OPENVINO, fail)
    found = written()
    assert found.outcome == "written"
    assert intended(tmp_path / "out.onnx").not_proved == {OPENVINO: "does not run. No kernel for it."}
    assert f"In {OPENVINO} with default options: it does not run. No kernel for it." in about(found)


def test_without_a_floor_the_figures_are_there_and_nothing_is_claimed(written, tmp_path):
    found = written(goal=NO_FLOOR)
    assert not found.elsewhere[0].meets_goal
    assert found.elsewhere[0].proof.snr_db > 10
    assert intended(tmp_path / "out.onnx").not_proved[OPENVINO].endswith("no floor was set.")
    assert not any("Not proved" in said for said in found.warnings)


def test_own_runtime_is_proved_with_default_options_where_the_file_was_made_for_others(written):
    found = written(backend=OPENVINO, method="int8", options={"precision": "f32"})
    assert [each.backend for each in found.elsewhere] == [ORT, OPENVINO]
