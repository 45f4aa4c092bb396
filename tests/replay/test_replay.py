import dataclasses
import json
import shutil

import msgspec
import numpy as np
import pytest

from edgeopt.bundle.deployment import SourceModel, Step
from edgeopt.bundle.profile import read_profile
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.request import ReplayRequest
from edgeopt.bundle.runtime.check import check
from edgeopt.cli.main import run
from edgeopt.errors import BundleError, ModelError, UsageError, VerificationError
from edgeopt.events import ignore
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load
from edgeopt.pipeline.replay import replay
from edgeopt.pipeline.replay_steps import check_steps, rebuild
from edgeopt.workers.host import LocalHost
from edgeopt.workers.tasks import TRIAL


@pytest.fixture(scope="module")
def again(chain, tmp_path_factory):
    """The bundle, replayed in another folder."""
    out = tmp_path_factory.mktemp("elsewhere") / "again.edgeopt"
    return replay(ReplayRequest(chain.bundle, chain.model, out)), read_bundle(out)


def test_the_same_model_without_data(chain, again):
    """With channels evened out and activations smoothed, as they were on data then."""
    found, bundle = again
    assert found.same_files
    assert bundle.model.read_bytes() == (chain.bundle / "model/chain.onnx").read_bytes()
    assert found.alike_db > 100
    assert not found.warnings
    for name in ("inputs", "outputs", "reference"):
        assert compare_outputs(read_bundle(chain.bundle).golden(name), bundle.golden(name)).snr_db == 200


def test_its_evidence_is_that_of_the_first_bundle_and_says_so(chain, again):
    found, bundle = again
    first = read_bundle(chain.bundle).deployment
    assert not found.measured
    assert bundle.deployment.evidence == first.evidence
    assert (bundle.deployment.created, bundle.deployment.files) == (first.created, first.files)
    assert bundle.deployment.replayed.measured is False
    assert json.loads((bundle.folder / "evidence.json").read_bytes()) == {"told": 0.1}
    assert "that of the first bundle" in check(bundle.folder, ignore).evidence


@pytest.fixture
def trials(monkeypatch):
    """The processes that are measured, as they are started."""
    pids, start = [], LocalHost.start

    def noted(host, task=TRIAL):
        child = start(host, task)
        if task == TRIAL:
            pids.append(child.pid)
        return child

    monkeypatch.setattr(LocalHost, "start", noted)
    return pids


@pytest.mark.slow
@pytest.mark.processes
def test_measured_anew_it_is_about_this_device(chain, tmp_path, trials):
    found = replay(ReplayRequest(chain.bundle, chain.model, tmp_path / "m.edgeopt", chain.data, measure=True))
    evidence = read_bundle(tmp_path / "m.edgeopt").deployment.evidence
    assert found.evidence == evidence
    assert evidence.samples == 12
    assert (evidence.baseline, evidence.floor_db) == ("source · onnxruntime-cpu", 20.0)
    assert 0 < evidence.speedup_low <= evidence.speedup <= evidence.speedup_high
    assert check(tmp_path / "m.edgeopt", ignore).evidence == ""
    assert len(trials) >= 2 * 3, "both sides, in fresh processes over and over"


def test_a_bundle_of_a_replayed_bundle_is_the_same(chain, again, tmp_path):
    _, bundle = again
    found = replay(
        ReplayRequest(bundle.folder / "deployment.toml", chain.model, tmp_path / "b.edgeopt", single_file=True)
    )
    assert found.same_files
    assert read_bundle(tmp_path / "b.edgeopt").deployment.files == bundle.deployment.files


def test_one_exported_file_is_enough(chain, tmp_path):
    found = replay(ReplayRequest(chain.exported, chain.model, tmp_path / "e.edgeopt", chain.data))
    bundle = read_bundle(tmp_path / "e.edgeopt")
    assert found.same_files
    assert found.accuracy_db > 20
    assert np.array_equal(bundle.golden("inputs")[-1]["x"][0], np.load(chain.data)["x"][-1])
    assert (bundle.folder / "quantization.json").read_bytes() == (chain.bundle / "quantization.json").read_bytes()


def test_without_samples_they_are_made_up_and_that_is_said(chain, tmp_path):
    found = replay(ReplayRequest(chain.exported, chain.model, tmp_path / "e.edgeopt"))
    assert any("generated" in warning for warning in found.warnings)
    assert check(tmp_path / "e.edgeopt", ignore).status == "valid"


def test_another_source_model_is_refused(chain, matmul_model, tmp_path):
    with pytest.raises(ModelError, match=r"not the model that the bundle was made from.*chain\.onnx"):
        replay(ReplayRequest(chain.bundle, matmul_model, tmp_path / "o.edgeopt"))
    assert not (tmp_path / "o.edgeopt").exists()


def test_a_lone_profile_needs_its_record_beside_it(chain, tmp_path):
    lone = shutil.copy(chain.bundle / "deployment.toml", tmp_path / "deployment.toml")
    with pytest.raises(BundleError, match=r"needs the file quantization\.json") as raised:
        replay(ReplayRequest(lone, chain.model, tmp_path / "o.edgeopt"))
    assert "profile export" in raised.value.hint
    shutil.copy(chain.bundle / "quantization.json", tmp_path)
    assert replay(ReplayRequest(lone, chain.model, tmp_path / "o.edgeopt", chain.data)).same_files


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('recipe = "int8"', 'recipe = "int9"', None),
        ("int8 = [", "int9 = [", "no scheme 'int9'"),
        ('int8 = ["', 'int8 = ["nobody", "', "no layer 'nobody'"),
        ('"dead-nodes"', '"dread-nodes"', "no pass 'dread-nodes'"),
        ("per_channel = true", 'per_channel = "yes"', "wrong setting"),
        ('model = "model/chain.onnx"', 'model = "../chain.onnx"', "not in model/"),
        ('model = "model/chain.onnx"', 'model = "model/../../chain.onnx"', "not in model/"),
        ("threads = 1", 'cache_dir = "/tmp"', "names a path"),
        ('backend = "onnxruntime-cpu"', 'backend = "abacus"', "abacus"),
        ('sha256 = "', 'sha256 = "0', None),
    ],
)
def test_what_is_wrong_with_a_profile_is_named(chain, text, tmp_path, old, new, says):
    order = ReplayRequest(text(old, new), chain.model, tmp_path / "o.edgeopt", chain.data)
    if new == 'recipe = "int9"':  # only what it is called
        assert replay(order).same_files
        return
    with pytest.raises((BundleError, ModelError, UsageError), match=says) as raised:
        replay(order)
    assert raised.value.hint
    assert not (tmp_path / "o.edgeopt").exists()


@pytest.mark.parametrize("recipe", ["nncf-int8", "nncf-transformer", "nncf-repaired", "ort-int8", "ort-dynamic"])
def test_a_step_of_a_library_says_that_it_needs_data(chain, recipe):
    profile = read_profile(chain.bundle)
    deployment = msgspec.structs.replace(profile.deployment, steps=[Step(recipe)])
    with pytest.raises(BundleError, match="needs calibration data, which a profile does not hold"):
        check_steps(dataclasses.replace(profile, deployment=deployment))


def test_a_step_of_a_plugin_says_that_the_bundle_itself_runs_without_it(chain):
    profile = read_profile(chain.bundle)
    step = Step("edgeopt-example.skip-reciprocals", {"plugin": "edgeopt-example 1.0"})
    deployment = msgspec.structs.replace(profile.deployment, steps=[step])
    with pytest.raises(BundleError, match=r"belongs to the plug-in edgeopt-example 1\.0") as raised:
        check_steps(dataclasses.replace(profile, deployment=deployment))
    assert raised.value.hint.startswith("Copy the bundle itself")


@pytest.mark.parametrize(("old", "new"), [("\\\n", "\\\n!"), ("\\\n", "\\\nAAAA")], ids=["no base64", "another"])
def test_a_record_that_was_changed_is_refused(chain, text, tmp_path, old, new):
    with pytest.raises(BundleError, match="The calibration result"):
        replay(ReplayRequest(text(old, new), chain.model, tmp_path / "o.edgeopt"))


def test_other_forms_are_another_model(chain, text, tmp_path):
    """Whoever edits the forms gets what they ask for, and is told that it is not what was proved."""
    changed = text("int8 = [", "w8 = [")
    found = replay(ReplayRequest(changed, chain.model, tmp_path / "o.edgeopt", chain.data))
    assert not found.same_files
    assert any("differ in some bytes" in warning for warning in found.warnings)
    assert read_bundle(tmp_path / "o.edgeopt").deployment.replayed.same_files is False


def test_what_answers_too_far_from_the_source_is_not_written(chain, copied, change_deployment, tmp_path):
    evidence = read_bundle(chain.bundle).deployment.evidence
    change_deployment(copied, evidence=msgspec.structs.replace(evidence, floor_db=90.0, accuracy_db=95.0))
    with pytest.raises(VerificationError, match="it needs"):
        replay(ReplayRequest(copied, chain.model, tmp_path / "o.edgeopt"))
    assert not (tmp_path / "o.edgeopt").exists()


def test_a_bundle_of_the_source_itself(conv_bundle, conv_model, tmp_path, change_deployment):
    bundle = shutil.copytree(conv_bundle, tmp_path / "conv.edgeopt")
    change_deployment(bundle, source=SourceModel("conv.onnx", load(conv_model).digest, 1), files={}, schema=1)
    found = replay(ReplayRequest(bundle, conv_model, tmp_path / "again.edgeopt"))
    assert found.same_files, "of the first schema too, whose manifest has the digests"
    assert (tmp_path / "again.edgeopt/model/conv.onnx").read_bytes() == conv_model.read_bytes()


def test_the_command_says_what_it_did(chain, tmp_path, capsys):
    out = str(tmp_path / "c.edgeopt")
    assert run(["replay", str(chain.bundle), str(chain.model), "-o", out]) == 0
    said = capsys.readouterr().out
    assert "byte for byte" in said
    assert "Not measured again; the first bundle's evidence: 2.00x faster" in said
    assert run(["replay", str(chain.model), str(chain.model), "-o", out, "--json"]) == 3
    assert "neither a bundle nor a deployment profile" in capsys.readouterr().out


def test_mapped_weights_are_written_beside_the_model_again(chain, tmp_path):
    """The step follows the exact rewrites."""
    profile = read_profile(chain.bundle)
    steps = [profile.deployment.steps[0], Step("mapped")]
    changed = dataclasses.replace(profile, deployment=msgspec.structs.replace(profile.deployment, steps=steps))
    for name in ("a", "b"):
        rebuild(changed, load(chain.model), tmp_path / name, tmp_path / f"work-{name}", ignore)
    first, second = (sorted((tmp_path / name / "model").iterdir()) for name in ("a", "b"))
    assert [path.name for path in first] == [path.name for path in second]
    assert len(first) == 2
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert load(first[0]).external == (first[1],)
