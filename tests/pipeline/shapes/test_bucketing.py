"""One search with sizes, in OpenVINO alone, and what it hands out."""

import shutil
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import edgeopt
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.commands.export.export import export
from edgeopt.errors import ModelError, UsageError
from edgeopt.events import ignore
from edgeopt.measure.stats import Interval
from edgeopt.pipeline.outcome import Candidate, SizeTimes
from edgeopt.pipeline.shapes.filling import with_buckets
from edgeopt.pipeline.shapes.shape_words import shape_lines
from edgeopt.pipeline.shapes.sized import slower_sizes, times_by_size
from tests.conftest import seeded, write_onnx
from tests.pipeline.conftest import search

pytest.importorskip("openvino")

PROFILE = """
name = "openvino-alone"
title = "One runtime, as it is"
extends = "generic-cpu"
[precision]
ladder = ["source"]
[backends]
order = ["openvino-cpu"]
[search]
max_candidates = 2
"""


@pytest.fixture(scope="module")
def sequences(tmp_path_factory):
    """Places that stand for themselves, in sequences of eight."""
    folder = tmp_path_factory.mktemp("sequences")
    nodes = [("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["y"], {})]
    shapes = {"x": ["batch", "seq", 16]}, {"y": ["batch", "seq", 32]}
    model = write_onnx(folder / "sequences.onnx", nodes, {"w": seeded(16, 32)}, *shapes)
    np.savez(folder / "data.npz", x=seeded(32, 1, 8, 16, seed=1))
    (folder / "profile.toml").write_text(PROFILE)
    return SimpleNamespace(
        model=model, data=folder / "data.npz", profile=folder / "profile.toml", folder=folder / "found"
    )


@pytest.fixture(scope="module")
def found(sequences):
    sequences.folder.mkdir()
    given = {"data": sequences.data, "profile": sequences.profile, "shape": ["seq=4:4:16"], "time_limit_s": 3}
    return search(sequences.model, sequences.folder, **given)


@pytest.mark.slow
def test_a_candidate_with_buckets_takes_part_beside_the_same_without(found):
    by_name = {report.candidate.name: report for report in found.outcome.candidates}
    bucketed = [name for name in by_name if name.endswith("seq=4,8,16")]
    assert bucketed
    for name in bucketed:
        assert by_name[name].status in {"winner", "lost"}
        assert by_name[name].accuracy_db > 30
        assert name.removesuffix(" · seq=4,8,16") in by_name
        assert by_name[name].candidate.options["bucket_cuts"] == {"seq:y": [1]}


@pytest.mark.slow
def test_the_outcome_says_how_fast_each_size_is_and_what_buckets_cost(found):
    outcome = found.outcome
    kept = outcome.winner == outcome.baseline  # nothing to compare it with at any size
    assert {times.sizes["seq"] for times in outcome.proof.by_size} == (set() if kept else {4, 6, 8, 12, 16})
    assert any("padded with zeros" in warning for warning in outcome.warnings)
    *sizes, cost = shape_lines(outcome)
    assert kept or sizes[0].startswith("By size: seq=4 ")
    assert "With a program for each size (seq=4,8,16), source · openvino-cpu" in cost
    assert "MiB" in cost


@pytest.mark.slow
def test_the_bundle_answers_every_size_as_the_model_does(found, sequences, tmp_path):
    assert {run["x"].shape[1] for run in read_bundle(found.out).golden("inputs")} > {4}
    assert check(found.out, ignore).status == "valid"
    with edgeopt.load(found.out) as bundle, edgeopt.load(sequences.model) as model:
        for length in (1, 4, 7, 16, 20):
            feeds = {"x": seeded(1, length, 16, seed=length)}
            np.testing.assert_allclose(bundle.run(feeds)["y"], model.run(feeds)["y"], atol=0.05)


@pytest.mark.slow
def test_other_forms_say_that_they_have_no_buckets(found, change_deployment, tmp_path):
    bundle = shutil.copytree(found.out, tmp_path / "b.edgeopt")
    run = read_bundle(bundle).deployment.run
    options = {
        "shapes": {"x": [1, 4, 16]},
        "buckets": {"seq": [4, 8]},
        "bucket_axes": {"seq:x": [1]},
        "bucket_cuts": {"seq:y": [1]},
        "bucket_fill": {"seq": [1, 6]},
    }
    change_deployment(bundle, run=msgspec.structs.replace(run, options={**run.options, **options}))
    done = export(bundle, "openvino-ir", tmp_path / "ir", ignore)
    assert done.accuracy_db > 30
    assert any("buckets" in note for note in done.notes)
    assert any("buckets=seq:4,8" in note and "bucket_axes" not in note for note in done.notes)


def test_only_those_with_shapes_can_have_buckets_and_so_many():
    shaped = SimpleNamespace(options={"buckets": {"seq": [4]}})
    able = [Candidate(name, "openvino-cpu", {"shapes": {"x": [1]}}) for name in ("cleaned", "source", "planned")]
    made = with_buckets(shaped, [Candidate("cleaned", "onnxruntime-cpu"), *able], 2)
    assert [one.variant for one in made] == ["cleaned", "source"]
    assert made[0].options == {"shapes": {"x": [1]}, "buckets": {"seq": [4]}}


def test_times_are_told_apart_by_the_size_of_the_sample():
    shaped = SimpleNamespace(
        dimensions=[SimpleNamespace(name="seq")], sizes_of=lambda turn: {"seq": 4 if turn % 2 == 0 else 16}
    )
    old = SimpleNamespace(laps=[(1, (5.0, 1.0) * 10)])  # begins with the second sample
    new = SimpleNamespace(laps=[(0, (0.5, 9.0) * 10)])
    small, large = times_by_size(shaped, old, new, 4)
    assert (small.name, small.baseline_ms, small.latency_ms, small.slower) == ("seq=4", 1.0, 0.5, False)
    assert (large.name, large.baseline_ms, large.latency_ms, large.slower) == ("seq=16", 5.0, 9.0, True)
    assert slower_sizes((small, large)) == "slower at seq=16 (9.00 ms instead of 5.00 ms)"
    few = times_by_size(shaped, SimpleNamespace(laps=[(1, (5.0,))]), new, 4)
    assert not slower_sizes(few)


def test_a_bundle_that_is_slower_at_one_size_does_not_win():
    from edgeopt.pipeline.goal import SearchGoal
    from edgeopt.pipeline.objectives import ResourceLimits, objective_named
    from edgeopt.pipeline.prove.deliver import meets_conditions, rejection_reason

    ratio = Interval(2.0, 1.8, 2.2, 11)
    proof = SimpleNamespace(by_size=(), verdict="faster", speedup=ratio, current=None, figure=None)
    aim = SearchGoal(objective_named("latency"), ResourceLimits())
    assert meets_conditions(aim, None, proof, Candidate("source", "null"))
    proof.by_size = (SizeTimes({"seq": 16}, 5.0, 9.0, 40, slower=True),)
    assert not meets_conditions(aim, None, proof, Candidate("source", "null"))
    assert "but slower at seq=16" in rejection_reason(aim, None, proof, Candidate("source", "null"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"objective": "throughput"}, "objective throughput"),
        ({"metric": "top1-labels", "max_drop": "1%"}, "because its labels"),
        ({"shape": ["time=1:2:3"]}, "no open dimension 'time'"),
    ],
)
def test_what_does_not_go_together_is_refused_at_once(sequences, tmp_path, more, said):
    with np.load(sequences.data) as data:
        np.savez(tmp_path / "labelled.npz", x=data["x"], label=np.zeros(32, np.int64))
    given = {"data": tmp_path / "labelled.npz", "profile": sequences.profile, "shape": ["seq=4:4:16"], **more}
    with pytest.raises(UsageError, match=said):
        edgeopt.optimize(sequences.model, tmp_path / "out.edgeopt", **given)


def test_a_model_that_takes_one_size_alone_is_told_so(sequences, tmp_path):
    nodes = [("Reshape", ["x", "shape"], ["y"], {})]
    x, y = {"x": ["batch", "seq", 16]}, {"y": ["batch", "seq", 16]}
    model = write_onnx(tmp_path / "one.onnx", nodes, {"shape": np.array([1, 8, 16])}, x, y)
    given = {"data": sequences.data, "profile": sequences.profile, "shape": ["seq=4:8:16"]}
    with pytest.raises(ModelError, match="at every requested size"):
        edgeopt.optimize(model, tmp_path / "out.edgeopt", **given)
