import json
import os
import shlex

import msgspec
import numpy as np
import pytest

from edgeopt.bundle import deployment as profile
from edgeopt.bundle.manifest import file_digest, write_manifest
from edgeopt.commands.bench.naming import read_options
from edgeopt.commands.export.export import FORMATS, MARK, export
from edgeopt.errors import BundleError, ConstraintError, UsageError, VerificationError


def quiet(_event):
    pass


@pytest.mark.parametrize("form", [form.name for form in FORMATS])
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_each_format_is_checked_and_says_what_it_is(exported, runtime, form):
    result, out = exported(runtime, form)
    if form == "cpp":
        assert "not compiled here" in result.not_checked
    else:
        assert result.accuracy_db > 35
        assert result.accuracy_db >= result.floor_db
    page = (out / "README.md").read_text()
    # The page goes elsewhere: it does not say where the bundle is here.
    use = [line.replace(shlex.quote(os.path.relpath(result.bundle, out)), "BUNDLE") for line in result.use]
    assert use
    assert all(line in page for line in (*use, *result.notes, "| input | `x` | float32 |"))
    mark = json.loads((out / MARK).read_text())
    assert (mark["format"], mark["bundle"]) == (form, "conv")
    assert mark["files"]
    for name, entry in mark["files"].items():
        assert file_digest(out / name) == entry["sha256"]
    assert not list(out.parent.glob(".*"))


def test_the_model_alone_says_what_made_it_fast(exported):
    result, out = exported("openvino", "onnx")
    assert (out / "conv.onnx").is_file()
    assert "precision=f32" in result.notes[0]
    assert "edgeopt bench conv.onnx --backend openvino-cpu --option precision=f32" in result.notes[0]


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_the_code_that_uses_the_model_runs_without_edgeopt(exported, runtime, monkeypatch):
    result, out = exported(runtime, "onnx")
    monkeypatch.chdir(out)
    assert not any("edgeopt" in line for line in result.use)
    names = {"x": np.random.default_rng(0).random((1, 3, 16, 16), np.float32)}
    exec("\n".join(result.use), names)  # noqa: S102 - as a user copies it
    outputs = names["outputs"]
    assert np.asarray(outputs[0]).shape == (1, 10)


def test_external_data_goes_with_the_model(bundle, into):
    import onnx

    model = onnx.load(bundle / "model" / "conv.onnx")
    options = {"save_as_external_data": True, "location": "weights.data", "size_threshold": 0}
    onnx.save_model(model, bundle / "model" / "conv.onnx", **options)
    write_manifest(bundle)
    result, out = into(bundle, "onnx")
    assert (out / "weights.data").stat().st_size > 1000
    assert result.accuracy_db > 100


def test_the_command_that_measures_an_exported_model_has_its_shapes(bundle, change_deployment, into):
    options = {"threads": 1, "shapes": {"x": [1, 3, 16, 16]}}
    change_deployment(bundle, run=profile.Run("openvino-cpu", "model/conv.onnx", options))
    result, out = into(bundle, "onnx")
    command = result.notes[0].partition("Measure it with: ")[2]
    words = shlex.split(command)
    read = read_options([words[place + 1] for place, word in enumerate(words) if word == "--option"])
    assert read == options
    assert command in (out / "README.md").read_text()


def test_an_earlier_export_is_replaced_and_nothing_else(bundle, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep me")
    with pytest.raises(UsageError, match="is not an earlier export, so it is not replaced"):
        export(bundle, "onnx", out, quiet)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    other = tmp_path / "other"
    other.mkdir()  # an empty folder may become one
    export(bundle, "onnx", other, quiet)
    export(bundle, "openvino-ir", other, quiet)
    assert {path.suffix for path in other.iterdir()} == {".xml", ".bin", ".md", ".json"}
    with pytest.raises(UsageError, match="contain each other"):
        export(bundle, "onnx", bundle / "export", quiet)


@pytest.mark.parametrize("name", ["outputs.npz", "build/CMakeCache.txt", "README.md", MARK])
def test_an_export_with_files_of_the_user_is_not_replaced(name, bundle, tmp_path):
    out = tmp_path / "out"
    export(bundle, "onnx", out, quiet)
    (out / "build").mkdir()
    (out / name).write_text("mine")
    with pytest.raises(UsageError, match=f"would be lost: {name}"):
        export(bundle, "onnx", out, quiet)
    assert (out / name).read_text() == "mine"


def test_what_answers_wrong_is_not_handed_out(bundle, tmp_path):
    out = tmp_path / "out"
    export(bundle, "onnx", out, quiet)
    before = (out / MARK).read_bytes()
    wrong = dict(np.load(bundle / "golden" / "reference.npz"))
    np.savez(bundle / "golden" / "reference.npz", **{name: -array for name, array in wrong.items()})
    write_manifest(bundle)
    for form in ("onnx", "runner"):
        with pytest.raises(VerificationError, match="reaches"):
            export(bundle, form, out, quiet)
    assert (out / MARK).read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_bundle_is_refused(bundle, tmp_path):
    (bundle / "ledger.json").write_text("[1]")
    with pytest.raises(BundleError, match="is damaged"):
        export(bundle, "onnx", tmp_path / "out", quiet)
    assert not (tmp_path / "out").exists()


def test_what_a_form_cannot_hold_is_refused(bundle, change_deployment, tmp_path):
    change_deployment(bundle, run=profile.Run("onnxruntime-tensorrt", "model/conv.onnx", {}))
    for form in ("runner", "triton", "cpp"):
        with pytest.raises(ConstraintError, match=f"cannot be exported as {form}: it runs with the backend onnx"):
            export(bundle, form, tmp_path / "out", quiet)
    change_deployment(bundle, run=profile.Run("onnxruntime-cuda", "model/conv.onnx", {}))
    with pytest.raises(ConstraintError, match="whose drivers the slim base image does not have"):
        export(bundle, "docker", tmp_path / "out", quiet)
    assert not (tmp_path / "out").exists()


def test_a_bundle_of_another_device_is_exported_unchecked(bundle, change_deployment, into):
    change_deployment(
        bundle, run=profile.Run("onnxruntime-cuda", "model/conv.onnx", {"use_tf32": False, "threads": 2})
    )
    result, out = into(bundle, "triton")
    assert result.accuracy_db is None
    assert "onnxruntime-cuda is not available" in result.not_checked
    config = (out / "conv" / "config.pbtxt").read_text()
    assert "KIND_GPU" in config
    assert 'key: "use_tf32"\n        value: "0"' in config


@pytest.mark.parametrize("form", ["onnx", "openvino-ir", "docker", "triton"])
def test_a_hostile_name_leads_nowhere(bundle, change_deployment, into, tmp_path, form):
    change_deployment(bundle, name="../../up\nRUN evil")
    before = set(tmp_path.parent.iterdir())
    _, out = into(bundle, form)
    assert set(tmp_path.parent.iterdir()) == before
    assert {path.name for path in tmp_path.iterdir()} == {"conv.edgeopt", "out"}
    if form == "docker":
        assert not [line for line in (out / "Dockerfile").read_text().splitlines() if line.startswith("RUN evil")]
    else:
        assert [path for path in out.rglob("*") if path.name.startswith("up_RUN_evil")]


def test_openvino_alone_runs_it_by_the_lines_of_the_page(exported, conv_bundle):
    result, out = exported("openvino", "openvino-ir")
    code = (out / "README.md").read_text().split("```")[1]
    code = code.replace("'conv.xml'", repr(str(out / "conv.xml")))
    known = {}
    exec(code, known)  # noqa: S102 - what a user would paste
    x = np.load(conv_bundle / "golden" / "inputs.npz")["x"][0]
    y = np.load(conv_bundle / "golden" / "outputs.npz")["y"][0]
    np.testing.assert_allclose(known["compiled"]({"x": x})["y"], y, atol=1e-5)
    assert known["compiled"].get_property("INFERENCE_NUM_THREADS") == 1
    assert "Carried in the .xml itself: dynamic_quantization_group_size." in result.notes


def test_another_runtime_s_bundle_is_told_apart(exported):
    result, _ = exported("onnxruntime", "openvino-ir")
    assert any("its speed in OpenVINO is unknown" in note for note in result.notes)


def test_operators_that_only_onnx_runtime_knows_are_refused(make_bundle, into):
    nodes = [("TransposeMatMul", ["x", "w"], ["y"], {"domain": "com.microsoft", "transB": 1})]
    weights = {"w": np.ones((3, 4), np.float32)}
    bundle = make_bundle(nodes, {"x": [1, 4]}, {"y": [1, 3]}, (1, 4), weights)
    with pytest.raises(ConstraintError, match="TransposeMatMul") as refused:
        into(bundle, "openvino-ir")
    assert "operators specific to ONNX Runtime" in refused.value.hint
    result, _ = into(bundle, "onnx")
    assert any("com.microsoft" in note for note in result.notes)


@pytest.mark.parametrize("form", [form.name for form in FORMATS])
def test_an_undecided_bundle_is_not_called_proved(bundle, change_deployment, into, form):
    evidence = profile.read_deployment(bundle / profile.FILE).evidence
    undecided = msgspec.structs.replace(evidence, verdict="undecided", rounds=0)
    change_deployment(bundle, summary="Undecided: too noisy to tell.", evidence=undecided)
    result, out = into(bundle, form)
    texts = [
        *result.notes,
        *(file.read_text() for name in ("README.md", "runner.py", MARK) for file in out.glob(name)),
    ]
    assert "Undecided: too noisy to tell." in "".join(texts)
    assert not [text for text in texts if "proved" in text]


def test_golden_samples_that_prove_nothing_are_named(make_bundle, into):
    nodes = [("Sub", ["x", "x"], ["z"], {}), ("Div", ["z", "z"], ["y"], {})]
    result, out = into(make_bundle(nodes, {"x": [1, 4]}, {"y": [1, 4]}, (1, 4)), "onnx")
    assert any(note.startswith("The output 'y' is NaN or infinity everywhere") for note in result.notes)
    assert "NaN or infinity everywhere" in (out / "README.md").read_text()


def test_readme_names_the_goal_of_a_metric_and_few_digits(bundle, change_deployment, into):
    evidence = profile.read_deployment(bundle / profile.FILE).evidence
    measured = {
        "verdict": "faster",
        "rounds": 16,
        "speedup": 2.37346,
        "speedup_low": 1.54284,
        "speedup_high": 3.65125,
    }
    faster = msgspec.structs.replace(evidence, floor_db=0.0, baseline="source", **measured)
    change_deployment(bundle, evidence=faster, budget=profile.Budget("top-1 at most 1 point below the source's"))
    page = (into(bundle, "onnx")[1] / "README.md").read_text()
    assert "Measured against source: 2.37x [1.54 3.65]" in page
    assert "asked for: top-1 at most 1 point below the source's" in page
    assert "0 dB" not in page.split("## Using it")[0]
