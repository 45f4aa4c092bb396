import json

import msgspec
import numpy as np
import pytest

from edgeopt.bundle.deployment import machine_of
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import BundleCheck, check
from edgeopt.bundle.write import write_golden
from edgeopt.cli.main import run
from edgeopt.cli.verify import stale
from edgeopt.errors import BundleError, VerificationError
from edgeopt.events import ignore
from edgeopt.hw.probe import probe


@pytest.fixture
def answers_differently(bundle):
    """The golden answers are no longer those of the model."""
    wrong = {"y": np.random.default_rng(0).standard_normal((3, 1, 10)).astype(np.float32)}
    np.savez(bundle / "golden/reference.npz", **wrong)
    write_manifest(bundle)
    return bundle


def test_a_sound_bundle_on_its_device(bundle):
    said = []
    found = check(bundle, said.append)
    assert found.files == 6
    assert found.floor_db == 30
    assert found.accuracy_db > 100
    assert not found.stale
    assert [event.phase for event in said] == ["checking digests", "running golden samples"]


def test_what_differs_from_the_device_is_named(bundle, change_deployment, device_fingerprint):
    change_deployment(bundle, device={**device_fingerprint, "cpu": "0" * 64, "runtimes": "1" * 64})
    assert sorted(check(bundle, ignore).stale) == ["cpu", "runtimes"]


def test_a_part_that_the_device_lacks_is_stale(bundle, change_deployment, device_fingerprint):
    change_deployment(bundle, device={**device_fingerprint, "coffee": "0" * 64})
    assert check(bundle, ignore).stale == ("coffee",)


def test_other_answers_than_when_it_was_made(answers_differently):
    with pytest.raises(VerificationError, match=r"it needs 24 dB") as raised:
        check(answers_differently, ignore)
    assert "optimize" in raised.value.hint


def test_the_floor_decides(bundle, change_deployment):
    """The same small difference is good for one floor and not for another."""
    golden = read_bundle(bundle).golden("outputs")
    noise = np.random.default_rng(0)
    near = np.stack([run["y"] * (1 + 0.03 * noise.standard_normal(run["y"].shape)) for run in golden])
    np.savez(bundle / "golden/reference.npz", y=near.astype(np.float32))
    evidence = read_bundle_evidence(bundle)
    change_deployment(bundle, evidence=msgspec.structs.replace(evidence, floor_db=20.0))
    assert 20 < check(bundle, ignore).accuracy_db < 45
    change_deployment(bundle, evidence=msgspec.structs.replace(evidence, floor_db=50.0))
    with pytest.raises(VerificationError, match="44 dB"):
        check(bundle, ignore)


def read_bundle_evidence(bundle):
    write_manifest(bundle)
    return read_bundle(bundle).deployment.evidence


def test_golden_answers_of_another_count(bundle):
    np.savez(bundle / "golden/reference.npz", y=np.zeros((1, 1, 10), np.float32))
    write_manifest(bundle)
    with pytest.raises(VerificationError, match="3 results for 1 samples"):
        check(bundle, ignore)


def test_no_golden_samples(bundle):
    (bundle / "golden/inputs.npz").unlink()
    write_manifest(bundle)
    with pytest.raises(BundleError, match=r"golden/inputs\.npz"):
        check(bundle, ignore)


def test_the_command_leaves_with_6(answers_differently, capsys):
    assert run(["verify", str(answers_differently), "--json"]) == 6
    error = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert error["event"] == "error"
    assert error["code"] == "verification-failed"
    assert run(["verify", str(answers_differently)]) == 6
    assert "it needs" in capsys.readouterr().err


def test_what_changed_is_said_in_words(bundle, change_deployment, device_fingerprint, matmul_model, capsys):
    change_deployment(
        bundle,
        device={**device_fingerprint, "cpu": "0" * 64, "runtimes": "1" * 64, "drivers": "2" * 64},
        machine={"cpu": "Abacus 4", "drivers": "beads: 1.0"},
        runtimes={**{each.name: each.version for each in probe().runtimes}, "onnxruntime": "1.0"},
    )
    found = check(bundle, ignore, model=matmul_model)
    told = {each.part: (each.then, each.now) for each in found.changes}
    assert found.status == "stale"
    assert told["cpu"] == ("Abacus 4", machine_of(probe())["cpu"])
    assert told["runtimes"][0] == "onnxruntime 1.0"
    assert told["drivers"][0] == "beads: 1.0"
    assert told["source model"][1].startswith("matmul.onnx")
    assert run(["verify", str(bundle)]) == 0
    said = capsys.readouterr().out
    assert "  • cpu: Abacus 4  ->  " in said
    assert f"edgeopt replay {bundle} MODEL -o NEW --measure" in said


def test_the_command_says_valid_or_stale(bundle, change_deployment, device_fingerprint, capsys):
    assert run(["verify", str(bundle)]) == 0
    assert "Valid" in capsys.readouterr().out
    change_deployment(bundle, device={**device_fingerprint, "memory": "0" * 64})
    assert run(["verify", str(bundle)]) == 0
    assert "Stale: memory" in capsys.readouterr().out
    assert run(["verify", str(bundle), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["data"]["stale"] == ["memory"]


def test_the_command_leaves_with_3_when_it_is_damaged(bundle, capsys):
    (bundle / "model/conv.onnx").write_bytes(b"")
    assert run(["verify", str(bundle)]) == 3
    assert "damaged: model/conv.onnx" in capsys.readouterr().err


def test_a_build_can_fail_where_a_bundle_is_stale(bundle, change_deployment, device_fingerprint, capsys):
    assert run(["verify", str(bundle), "--fail-on-stale"]) == 0
    machine = {"memory": "1 [GiB]"}
    change_deployment(bundle, device={**device_fingerprint, "memory": "0" * 64}, machine=machine)
    capsys.readouterr()
    assert run(["verify", str(bundle), "--fail-on-stale"]) == 6
    said = capsys.readouterr()
    assert "Stale: memory changed" in said.out
    assert "'conv.edgeopt' is stale, because this changed since it was proved: memory: 1 [GiB] -> " in said.err
    assert "edgeopt replay" in said.err
    assert run(["verify", str(bundle), "--fail-on-stale", "--json"]) == 6
    said = capsys.readouterr()
    last = json.loads(said.out.splitlines()[-1])
    assert (last["event"], last["data"]["status"], said.err) == ("result", "stale", "")


def test_a_bundle_that_was_never_proved_is_as_good_as_stale():
    planned = BundleCheck("plan.edgeopt", 6, 90.0, 30.0, (), predicted=True, evidence="Predicted for a board.")
    assert stale(planned).message == "'plan.edgeopt' was never proved on its device."
    assert stale(planned).hint == "Predicted for a board."
    assert stale(BundleCheck("b.edgeopt", 6, 90.0, 30.0, ())) is None


def test_valid_says_nothing_of_speed(bundle, change_deployment, capsys):
    evidence = msgspec.structs.replace(
        read_bundle_evidence(bundle), verdict="not proved faster", speedup=1.01, speedup_low=0.9, speedup_high=1.1
    )
    change_deployment(bundle, evidence=evidence)
    assert run(["verify", str(bundle), "--fail-on-stale"]) == 0
    out = capsys.readouterr().out
    assert "Valid: the files match the manifest; device and runtimes" in out
    assert f"Speed: Not proved faster than {evidence.baseline}: 1.01x [0.90 1.10]." in out
    assert run(["verify", str(bundle), "--require-faster"]) == 6
    err = capsys.readouterr().err
    assert "'conv.edgeopt' is not proved faster than its source." in err
    assert "--measure" in err


def test_a_bundle_that_must_be_faster_must_be_so_on_a_device_like_this_one(
    bundle, change_deployment, device_fingerprint, capsys
):
    faster = msgspec.structs.replace(
        read_bundle_evidence(bundle), verdict="faster", speedup=1.5, speedup_low=1.2, speedup_high=1.9
    )
    change_deployment(bundle, evidence=faster)
    assert run(["verify", str(bundle), "--require-faster"]) == 0
    assert f"Speed: Proved faster than {faster.baseline}: 1.50x [1.20 1.90]." in capsys.readouterr().out
    change_deployment(bundle, device={**device_fingerprint, "memory": "0" * 64})
    assert run(["verify", str(bundle), "--require-faster"]) == 6
    assert "is stale" in capsys.readouterr().err


@pytest.mark.parametrize("verdict", ["keep what you have", "undecided", "not proved faster"])
def test_the_verdict_counts_beside_the_interval(bundle, change_deployment, verdict):
    """An interval above 1x alone does not make a kept model a faster one."""
    evidence = msgspec.structs.replace(read_bundle_evidence(bundle), verdict=verdict, speedup_low=1.01)
    change_deployment(bundle, evidence=evidence)
    assert check(bundle, ignore).speed == "not proved faster"


def test_a_page_says_that_a_bundle_is_broken(answers_differently, capsys):
    assert run(["verify", str(answers_differently), "--markdown"]) == 6
    out = capsys.readouterr().out
    assert out.startswith("## edgeopt verify: ")
    assert "**Failed: The bundle 'conv.edgeopt'" in out


def test_a_page_of_what_was_checked(bundle, change_deployment, device_fingerprint, capsys):
    assert run(["verify", str(bundle), "--markdown"]) == 0
    out = capsys.readouterr().out
    verdict = (
        "**Valid: the files match the manifest; device and runtimes are unchanged since the bundle was made.**"
    )
    assert out.startswith(f"## edgeopt verify: conv.edgeopt\n\n{verdict}\n")
    assert "| files | all 6 match the manifest |" in out
    assert "\nMachine: Linux" in out
    machine = {"memory": "1 [GiB]"}
    change_deployment(bundle, device={**device_fingerprint, "memory": "0" * 64}, machine=machine)
    assert run(["verify", str(bundle), "--markdown", "--fail-on-stale"]) == 6
    out = capsys.readouterr().out
    assert "**Stale: memory changed since it was made, so nothing is proved of its speed here.**" in out
    assert "| memory | 1 \\[GiB\\] | " in out
    assert run(["verify", str(bundle), "--markdown", "--json"]) == 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("n = Neg(x)  a = Abs(n)  b = Neg(a)  c = Sub(b, one)  y = Sqrt(c)", "is NaN or infinity everywhere"),
        ("z = Sub(x, x)  a = Add(z, one)  y = Div(a, z)", "is NaN or infinity everywhere"),
        ("z = Sub(x, x)  y = Relu(z)", "is almost zero on all samples"),
        ("z = Sub(x, x)  y = Add(z, one)", "is the same on all 2 samples"),
    ],
    ids=["NaN", "infinite", "zero", "constant"],
)
def test_golden_outputs_that_prove_nothing_are_named(bundle, write_model, capsys, body, expected):
    pytest.importorskip("onnxruntime", reason="runs the golden samples")
    from edgeopt.backends import backend_named

    model = write_model(f"g (float[1,4] x) => (float[1,4] y) {{ {body} }}", one=np.ones(4, np.float32))
    feeds = [{"x": np.random.default_rng(k).standard_normal((1, 4)).astype(np.float32)} for k in range(2)]
    golden = [backend_named("onnxruntime-cpu").load(model, {}).run(each) for each in feeds]
    deployment = read_bundle(bundle).deployment
    (bundle / deployment.run.model).write_bytes(model.read_bytes())
    for name, samples in (("inputs", feeds), ("outputs", golden), ("reference", golden)):
        write_golden(bundle, name, samples)
    write_manifest(bundle)
    for format_ in ([], ["--markdown"]):
        assert run(["verify", str(bundle), *format_]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f"The output 'y' {expected}" in out
        is_constant = expected.startswith("is the same")
        assert ("equal to the source model" in out) == is_constant
        assert ("all outputs are NaN, infinite, empty or zero" in out) == (not is_constant)
