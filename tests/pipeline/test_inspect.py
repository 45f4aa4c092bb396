import dataclasses
from contextlib import ExitStack

import numpy as np
import onnx
import pytest

from edgeopt.backends.openvino import devices as openvino
from edgeopt.errors import DataError, EdgeoptError, MissingError, ModelError, ProfileError, UsageError
from edgeopt.events import ignore
from edgeopt.hw.device import Unavailable
from edgeopt.pipeline import inspect as preparing
from edgeopt.pipeline.context import open_context
from edgeopt.pipeline.inspect import prepare
from edgeopt.pipeline.request import OptimizeRequest


def test_with_data(prepared, conv_model, conv_data):
    found = prepared(conv_model, data=conv_data, time_limit_s=7)
    assert found.found.data.of_user
    assert found.found.limit_s == 7
    assert found.found.profile.name == "quick"
    assert found.baseline.candidate.name == "source · onnxruntime-cpu"
    assert len(found.samples) == 32
    reference = found.found.reference
    assert len(reference.outputs) == reference.split.check_count
    (warning,) = found.warnings
    assert "All samples of the input 'x' are at levels" in warning


def test_without_data_it_says_what_is_not_tried(prepared, conv_model):
    said = []
    found = prepared(conv_model, said)
    assert not found.found.data.of_user
    silent = [not found.samples.feeds(k)["x"].any() for k in range(len(found.samples))]
    assert not any(silent[:16])  # the ones that are timed are ordinary
    assert any(silent[16:])
    assert "only exact rewrites" in found.warnings[0]
    assert [event.message for event in said if getattr(event, "level", "") == "warning"] == found.warnings


def test_a_runtime_that_is_not_installed_makes_no_candidates(
    prepared, conv_model, quick_profile, tmp_path, monkeypatch
):
    missing = dataclasses.replace(
        openvino.CPU_BACKEND, available=lambda: Unavailable("it is not installed", "intel")
    )
    named = preparing.backend_named
    monkeypatch.setattr(preparing, "backend_named", lambda n: missing if n == missing.name else named(n))
    profile = tmp_path / "both.toml"
    profile.write_text(
        quick_profile.read_text().replace('["onnxruntime-cpu"]', '["openvino-cpu", "onnxruntime-cpu"]')
    )
    found = prepared(conv_model, profile=profile)
    assert found.found.profile.backends.order == ("onnxruntime-cpu",)
    assert "Skipped the backend openvino-cpu: it is not installed." in found.warnings


def test_few_samples_and_arrays_that_are_no_input_are_told(prepared, conv_model, tmp_path):
    some = np.random.default_rng(0).random((3, 3, 16, 16), np.float32)
    np.savez(tmp_path / "d.npz", x=some, weights=np.arange(3))
    told = " ".join(prepared(conv_model, data=tmp_path / "d.npz").warnings)
    assert "3 samples, too few" in told
    assert "Ignored in the data: weights" in told


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"profile": None, "target": "cpu-avx3"}, UsageError, "no target 'cpu-avx3'"),
        ({"profile": "nowhere.toml"}, ProfileError, "nowhere.toml"),
        ({"data": "nowhere.npz"}, DataError, "nowhere.npz"),
    ],
    ids=["target", "profile", "data"],
)
def test_what_is_not_there_is_named(prepared, conv_model, tmp_path, options, error, says):
    named = {k: tmp_path / v if k in {"profile", "data"} and v else v for k, v in options.items()}
    with pytest.raises(error, match=says) as raised:
        prepared(conv_model, **named)
    assert raised.value.hint


def test_a_target_that_does_not_fit_is_told(prepared, conv_model):
    found = prepared(conv_model, profile=None, target="arm-dotprod")
    assert found.found.profile.name == "arm-dotprod"
    assert any("does not fit this device" in warning for warning in found.warnings)


def test_a_model_that_no_runtime_runs(prepared, tmp_path):
    node = onnx.helper.make_node("Toast", ["x"], ["y"], domain="task")
    ports = [onnx.helper.make_tensor_value_info(name, 1, [1, 4]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("task", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "toast.onnx")
    with pytest.raises(ModelError, match=r"No installed runtime can run the model.*Toast"):
        prepared(tmp_path / "toast.onnx")


def test_an_error_leaves_no_process_behind(tmp_path, quick_profile):
    import psutil

    before = {p.pid for p in psutil.Process().children(recursive=True)}
    settings = OptimizeRequest(tmp_path / "nowhere.onnx", tmp_path / "out", profile=quick_profile)
    with ExitStack() as stack, pytest.raises(EdgeoptError):
        prepare(settings, open_context(tmp_path, stack, ignore), stack)
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= before


@pytest.mark.parametrize("shape", [(12, 20, 24, 3), (12, 3, 20, 24)], ids=["channels last", "channels first"])
def test_a_profile_says_how_pictures_become_the_input(prepared, conv_model, tmp_path, shape):
    profile = tmp_path / "camera.toml"
    profile.write_text(
        'name = "camera"\ntitle = "C"\nextends = "low-memory"\n'
        '[backends]\norder = ["onnxruntime-cpu"]\n[data]\nresize = [16]\ncrop = [16]\nscale = 0.01\n'
    )
    pictures = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    np.savez(tmp_path / "d.npz", x=pictures)
    found = prepared(conv_model, profile=profile, data=tmp_path / "d.npz")
    assert (len(found.samples), found.samples.shapes()) == (12, {"x": [1, 3, 16, 16]})
    assert 1 < found.samples.arrays["x"].max() < 2.56
    assert found.found.profile.runtime["onnxruntime-cpu"]["arena"] == (False,)


def test_what_this_version_does_not_have_is_left_out_and_told(prepared, conv_model, tmp_path):
    profile = tmp_path / "mine.toml"
    profile.write_text(
        'name = "mine"\ntitle = "M"\nextends = "generic-cpu"\n[precision]\nladder = ["source", "cleaned"]\n'
        '[backends]\norder = ["onnxruntime-cpu", "onnxruntime-webgpu"]\n[search]\ntime_limit_s = 33\n'
    )
    found = prepared(conv_model, profile=profile)
    assert found.found.profile.backends.order == ("onnxruntime-cpu",)
    assert any("not supported yet: onnxruntime-webgpu" in warning for warning in found.warnings)
    assert found.found.limit_s == 33


def test_an_accelerator_that_is_not_here_is_left_out_and_told(prepared, conv_model, tmp_path):
    profile = tmp_path / "mine.toml"
    profile.write_text(
        'name = "mine"\ntitle = "M"\nextends = "generic-cpu"\n'
        '[backends]\norder = ["onnxruntime-cpu", "onnxruntime-directml", "onnxruntime-coreml"]\n'
    )
    found = prepared(conv_model, profile=profile)
    # Nowhere are both of them.
    assert 1 <= len(found.found.profile.backends.order) <= 2
    assert any(": it exists on" in warning for warning in found.warnings)


def test_a_target_that_is_about_an_accelerator_that_is_not_here(prepared, conv_model):
    with pytest.raises(MissingError, match="onnxruntime-coreml of gpu-mps is not available"):
        prepared(conv_model, target="gpu-mps", profile=None)


def test_a_shipped_profile_by_name(prepared, conv_model):
    found = prepared(conv_model, profile="realtime", target="generic-cpu")
    assert (found.found.profile.name, found.found.profile.match.rank) == ("realtime", 0)


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_samples_that_are_all_the_same_prove_nothing(prepared, conv_model, tmp_path, value):
    np.savez(tmp_path / "same.npz", x=np.full((16, 3, 16, 16), value, np.float32))
    with pytest.raises(DataError, match="All 16 samples of the data are equal") as raised:
        prepared(conv_model, data=tmp_path / "same.npz")
    assert "12 or more realistic, different" in raised.value.hint


def test_whole_numbers_for_an_input_of_floats_are_told(prepared, conv_model, tmp_path):
    pictures = np.random.default_rng(0).integers(0, 255, (16, 3, 16, 16), np.uint8)
    np.savez(tmp_path / "whole.npz", x=pictures)
    found = prepared(conv_model, data=tmp_path / "whole.npz")
    assert any("holds uint8 for an input of float32" in each for each in found.warnings)
