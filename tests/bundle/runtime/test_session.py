import json
import os
import shutil
from dataclasses import replace

import numpy as np
import onnx.parser
import pytest

import edgeopt
from edgeopt.backends.base import Placement
from edgeopt.backends.intended import KEY, encoded
from edgeopt.backends.onnxruntime import cpu
from edgeopt.backends.openvino import devices as openvino_cpu
from edgeopt.bundle.deployment import Run
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime import locate
from edgeopt.bundle.runtime import session as module
from edgeopt.errors import BundleError, EdgeoptError, MissingError, ModelError, UsageError
from edgeopt.hw.device import Unavailable


def feed(batch=1, seed=0):
    return {"x": np.random.default_rng(seed).standard_normal((batch, 3, 16, 16)).astype(np.float32)}


def test_a_bundle_answers_as_it_did_when_it_was_made(bundle):
    golden = read_bundle(bundle)
    with edgeopt.load(bundle) as session:
        assert session.backend == "onnxruntime-cpu"
        assert session.deployment == golden.deployment
        assert [i.name for i in session.inputs] == ["x"]
        assert [o.name for o in session.outputs] == ["y"]
        for feeds, wanted in zip(golden.golden("inputs"), golden.golden("outputs"), strict=True):
            np.testing.assert_allclose(session.run(feeds)["y"], wanted["y"], rtol=1e-4, atol=1e-5)


def test_a_bundle_loads_from_a_text_path_and_after_a_move(bundle, tmp_path):
    moved = shutil.move(bundle, tmp_path / "elsewhere")
    with edgeopt.load(str(moved)) as session:
        assert session.run(feed(2))["y"].shape == (2, 10)


def test_a_plain_model(conv_model):
    with edgeopt.load(conv_model) as session:
        assert session.deployment is None
        assert session.run(feed(3))["y"].shape == (3, 10)


def test_results_stay_valid_after_the_next_run(bundle):
    with edgeopt.load(bundle) as session:
        first = session.run(feed(seed=1))["y"]
        kept = first.copy()
        for seed in range(2, 6):
            assert not np.array_equal(session.run(feed(seed=seed))["y"], kept)
        assert np.array_equal(first, kept)


def test_a_closed_session_says_so(bundle):
    session = edgeopt.load(bundle)
    session.close()
    with pytest.raises(UsageError, match="closed"):
        session.run(feed())


def test_the_options_of_the_bundle_are_used(bundle, change_deployment):
    change_deployment(bundle, run=Run("onnxruntime-cpu", "model/conv.onnx", {"colour": "red"}))
    with pytest.raises(EdgeoptError, match="colour"):
        edgeopt.load(bundle)


def test_a_backend_nobody_knows_is_named(bundle, change_deployment):
    change_deployment(bundle, run=Run("toaster", "model/conv.onnx"))
    with pytest.raises(EdgeoptError, match="toaster"):
        edgeopt.load(bundle)


@pytest.fixture
def without_onnxruntime(monkeypatch):
    gone = replace(cpu.BACKEND, available=lambda: Unavailable("onnxruntime is not installed", "cpu"))
    monkeypatch.setattr(locate, "BACKENDS", (gone,))
    monkeypatch.setattr(locate, "backend_named", lambda _: gone)


@pytest.fixture
def without_openvino(bundle, change_deployment, monkeypatch):
    """A bundle proved with OpenVINO, on a device that has ONNX Runtime only."""
    gone = replace(
        openvino_cpu.CPU_BACKEND, available=lambda: Unavailable("openvino is not installed", "openvino")
    )
    monkeypatch.setattr(locate, "BACKENDS", (cpu.BACKEND, gone))
    monkeypatch.setattr(locate, "backend_named", lambda _: gone)
    change_deployment(bundle, run=Run("openvino-cpu", "model/conv.onnx", {"threads": 1}))
    return bundle


def test_bundle_runs_on_the_next_backend_with_a_warning(without_openvino, caplog):
    with edgeopt.load(without_openvino) as session:
        assert session.backend == "onnxruntime-cpu"
        assert session.run(feed(2))["y"].shape == (2, 10)
    assert "was proved with openvino-cpu, which is not available here" in caplog.text


@pytest.mark.parametrize("refusing", [{"fallback": False}, {"strict": True}])
def test_fallback_to_another_backend_can_be_refused(without_openvino, refusing):
    with pytest.raises(MissingError, match="needs the backend openvino-cpu"):
        edgeopt.load(without_openvino, **refusing)


def test_backend_that_cannot_load_the_model_instead_names_the_missing_one(without_openvino, monkeypatch):
    def load(*_, **__):
        raise ModelError("The operator Secret is unknown.", "Export the model again.")

    monkeypatch.setattr(locate, "BACKENDS", (replace(cpu.BACKEND, load=load),))
    with pytest.raises(MissingError, match=r"needs the backend openvino-cpu.*onnxruntime-cpu cannot.*Secret"):
        edgeopt.load(without_openvino)


def test_fallback_that_misses_the_golden_outputs_is_refused(without_openvino, monkeypatch):
    def halved(loaded, _limits):
        return lambda feeds: {name: array / 2 for name, array in loaded.run(feeds).items()}, None

    monkeypatch.setattr(module, "by_name", halved)
    with pytest.raises(
        BundleError, match=r"openvino-cpu of the bundle is not available here\. On onnxruntime-cpu"
    ):
        edgeopt.load(without_openvino)


def test_a_missing_runtime_names_the_extra(bundle, conv_model, without_onnxruntime):
    for path in (bundle, conv_model):
        with pytest.raises(MissingError, match=r"is not available: onnxruntime is not installed\.") as raised:
            edgeopt.load(path)
        assert "pip install onnxruntime" in raised.value.hint


def test_a_missing_device_is_not_told_as_a_missing_package(conv_model, monkeypatch):
    gone = replace(cpu.BACKEND, name="gpu", available=lambda: Unavailable("this system shows no GPU"))
    monkeypatch.setattr(locate, "backend_named", lambda _: gone)
    with pytest.raises(
        MissingError, match=r"the backend gpu, which is not available: this system shows no GPU\."
    ) as raised:
        edgeopt.load(conv_model, "gpu")
    assert "pip" not in raised.value.hint


def test_the_placement_is_the_one_of_now(conv_model, monkeypatch):
    """As with OpenVINO's AUTO, which starts on the processor and moves on."""
    places = iter([Placement("AUTO", {"CPU": 2}), Placement("GPU", {"GPU": 2})])
    loaded = type("Moving", (), {"placement": property(lambda _: next(places)), "inputs": (), "outputs": ()})
    loaded.run = loaded.close = lambda *_: None
    session = module.Session(
        locate.SessionPlace(replace(cpu.BACKEND, load=lambda *_, **__: loaded()), conv_model, {})
    )
    assert [session.placement.nodes for _ in range(2)] == [{"CPU": 2}, {"GPU": 2}]


@pytest.mark.parametrize("name", ["model/conv.onnx", "golden/outputs.npz", "manifest.json", "deployment.toml"])
def test_a_damaged_bundle_is_refused_before_anything_is_loaded(bundle, monkeypatch, name):
    loads = []
    monkeypatch.setattr(module.Session, "__init__", lambda *a: loads.append(a))
    os.truncate(bundle / name, (bundle / name).stat().st_size - 2)
    with pytest.raises(BundleError):
        edgeopt.load(bundle)
    assert not loads


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda _: None, ModelError, "no model or bundle at"),
        (lambda path: path.write_text(""), BundleError, "not a valid zip archive"),
        (lambda path: path.mkdir(), BundleError, r"no manifest\.json"),
    ],
    ids=["missing", "file", "empty folder"],
)
def test_what_is_neither_bundle_nor_model(tmp_path, make, error, says):
    make(tmp_path / "x.edgeopt")
    with pytest.raises(error, match=says):
        edgeopt.load(tmp_path / "x.edgeopt")


def test_a_model_that_no_backend_reads(tmp_path):
    (tmp_path / "model.mnn").write_bytes(b"\x00\x01")
    with pytest.raises(ModelError, match=r"No backend reads 'model\.mnn'"):
        edgeopt.load(tmp_path / "model.mnn")


def test_a_backend_and_options_may_be_chosen_for_a_model(tmp_path):
    port = {"dtype": "float32", "shape": ["n"]}
    model = tmp_path / "m.null.json"
    model.write_text(json.dumps({"inputs": [{"name": "x", **port}], "outputs": [{"name": "y", **port}]}))
    with edgeopt.load(model, backend="null", options={"threads": 2}) as session:
        assert session.backend == "null"
        assert session.run({"x": np.float32([1, 2])})["y"].tolist() == [0, 0]
    with pytest.raises(UsageError, match="nul"):
        edgeopt.load(model, backend="nul")


def test_a_file_that_is_no_model_is_told_before_a_runtime_meets_it(tmp_path):
    file = tmp_path / "page.onnx"
    file.write_text("<!DOCTYPE html><html>")
    with pytest.raises(ModelError, match="an HTML page, not an ONNX model"):
        edgeopt.load(file)


def test_what_falls_back_is_told_and_refused_when_strict(null_model, caplog):
    model = null_model("half", fallen=["Foo: foo_1"], nodes=4)
    with edgeopt.load(model) as session:
        assert session.placement.fallen == ("Foo: foo_1",)
    assert "1 of 4 nodes do not run on null but on elsewhere: Foo: foo_1" in caplog.text
    with pytest.raises(ModelError, match="1 of 4 nodes"):
        edgeopt.load(model, strict=True)


def test_libraries_of_operators_go_to_models_and_not_to_bundles(bundle, conv_model, tmp_path):
    with pytest.raises(UsageError, match="A bundle takes no libraries"):
        edgeopt.load(bundle, custom_ops=["mine.so"])
    with pytest.raises(EdgeoptError, match=r"mine\.so"):
        edgeopt.load(conv_model, custom_ops=[tmp_path / "mine.so"])


def test_a_model_with_one_input_takes_its_array_alone(relu_model):
    array = np.float32([[-1, 2]])
    with edgeopt.load(relu_model) as session:
        (given,) = session.inputs
        array = np.resize(array, [size if isinstance(size, int) else 2 for size in given.shape])
        alone, named = session.run(array), session.run({given.name: array})
        assert alone.keys() == named.keys()
        for name, values in named.items():
            np.testing.assert_array_equal(alone[name], values)


def test_an_array_alone_must_say_which_of_several_inputs_it_is(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[n] a, float[n] b) => (float[n] y) { y = Add(a, b) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    with edgeopt.load(tmp_path / "m.onnx") as session, pytest.raises(UsageError, match="2 inputs"):
        session.run(np.ones(3, np.float32))


def test_a_file_made_for_what_is_not_here_runs_in_the_default_and_says_so(conv_model, tmp_path, caplog):
    model = onnx.load(conv_model)
    model.metadata_props.add(key=KEY, value=encoded("abacus", {}))
    onnx.save(model, tmp_path / "made.onnx")
    with edgeopt.load(tmp_path / "made.onnx") as session:
        assert session.backend == "onnxruntime-cpu"
    assert "'made.onnx' was made for abacus; it runs on onnxruntime-cpu here." in caplog.text


def test_a_file_runs_on_what_it_was_made_for(conv_model, tmp_path):
    model = onnx.load(conv_model)
    model.metadata_props.add(key=KEY, value=encoded("openvino-cpu", {"precision": "f32"}))
    onnx.save(model, tmp_path / "made.onnx")
    with edgeopt.load(tmp_path / "made.onnx") as session:
        assert session.backend == "openvino-cpu"
    with edgeopt.load(tmp_path / "made.onnx", backend="onnxruntime-cpu") as session:
        assert session.backend == "onnxruntime-cpu"
