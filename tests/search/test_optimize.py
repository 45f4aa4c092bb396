import numpy as np
import onnx
import onnx.parser
import pytest

import edgeopt
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt.events import ignore
from edgeopt.runtime.check import check
from edgeopt.search.optimize import optimize


@pytest.mark.alone
def test_the_model_is_never_touched_and_nothing_is_left_beside_the_bundle(with_data, without_data, nothing_wins):
    for found in (with_data, without_data, nothing_wins):
        assert found.unchanged
        assert not [p.name for p in found.out.parent.iterdir() if p.name.startswith(".")]


@pytest.mark.alone
def test_every_variant_of_the_ladder_is_accounted_for(with_data, without_data):
    ladder = ["source", "cleaned", "lowered", "int8", "int8-dynamic"]
    for found in (with_data, without_data):
        assert sorted(v.name for v in found.outcome.variants) == sorted(ladder)
        for variant in found.outcome.variants:
            raced = [c for c in found.outcome.candidates if c.candidate.variant == variant.name]
            assert bool(raced) != bool(variant.failure)


@pytest.mark.alone
def test_every_candidate_but_the_winner_says_why_it_lost(with_data):
    outcome = with_data.outcome
    winners = [c for c in outcome.candidates if c.status == "winner"]
    if outcome.verdict == "faster":
        assert [c.candidate for c in winners] == [outcome.winner]
    for report in outcome.candidates:
        assert report.reason or report.status == "winner"


@pytest.mark.alone
def test_the_winner_is_proved_fast_and_good(with_data):
    outcome = with_data.outcome
    assert outcome.proof.accuracy_db >= outcome.floor_db == 30
    assert outcome.proof.samples == 8
    assert outcome.proof.speedup.rounds >= 11
    if outcome.verdict == "faster":
        assert outcome.proof.speedup.low > 1
        assert outcome.winner != outcome.baseline
    else:
        assert outcome.winner == outcome.baseline


@pytest.mark.alone
def test_eight_bits_are_tried_with_data(with_data):
    static = next(c for c in with_data.outcome.candidates if c.candidate.variant == "int8")
    assert 20 < static.accuracy_db < 150
    assert next(v for v in with_data.outcome.variants if v.name == "int8").size_bytes


@pytest.mark.alone
def test_without_data_nothing_with_eight_bits_is_tried_and_it_says_why(without_data):
    outcome = without_data.outcome
    assert not [c for c in outcome.candidates if "int8" in c.candidate.variant]
    reasons = {v.name: v.failure for v in outcome.variants if "int8" in v.name}
    assert len(reasons) == 2
    assert all("needs data" in reason for reason in reasons.values())
    assert any("No data was given" in warning for warning in outcome.warnings)


@pytest.mark.alone
def test_when_nothing_wins_you_keep_what_you_have(nothing_wins):
    outcome = nothing_wins.outcome
    assert outcome.verdict == "keep what you have"
    assert outcome.winner == outcome.baseline
    assert outcome.summary.startswith("Keep what you have")
    assert "winner" not in {c.status for c in outcome.candidates}
    assert "No exact rewrite applies" in next(v.failure for v in outcome.variants if v.name == "cleaned")
    with edgeopt.load(nothing_wins.out) as session:
        answer = session.run({"x": np.float32([[-1, 2, -3, 4]])})["y"]
    assert answer.tolist() == [[0, 2, 0, 4]]
    assert (nothing_wins.out / "model/relu.onnx").read_bytes() == nothing_wins.model.read_bytes()


@pytest.mark.alone
def test_every_bundle_is_complete_and_holds_here(with_data, without_data, nothing_wins):
    for found in (with_data, without_data, nothing_wins):
        assert not check(found.out, ignore).stale
        assert read_bundle(found.out).deployment.evidence.verdict == found.outcome.verdict


@pytest.mark.alone
def test_it_tells_its_phases(with_data):
    phases = list(dict.fromkeys(event.phase for event in with_data.said if hasattr(event, "phase")))
    assert phases[:2] == ["reading the model", "making variants"]
    assert phases[-1] == "proving"
    assert "racing" in phases


def test_arrays_from_python_under_any_name(tmp_path, models, quick_profile):
    import onnx

    node = onnx.helper.make_node("Relu", ["file"], ["y"])
    ports = [onnx.helper.make_tensor_value_info(name, 1, ["batch", 4]) for name in ("file", "y")]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    data = {"file": np.ones((2, 4), np.float32)}
    with pytest.raises(DataError, match="'file'"):
        optimize(tmp_path / "m.onnx", tmp_path / "out", data={"x": data["file"]}, profile=quick_profile)
    # The target is looked at after the data, so these were good.
    with pytest.raises(UsageError, match="no target 'nowhere'"):
        optimize(tmp_path / "m.onnx", tmp_path / "out", data=data, target="nowhere")


def test_texts_and_shapes_that_depend_on_the_sample(tmp_path, quick_profile):
    import onnx
    import onnx.parser

    text = "g (string[n] s, float[n] x) => (string[n] t, int64[1, m] y) { t = Identity(s) y = NonZero(x) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), tmp_path / "m.onnx")
    data = {"s": np.array([["a", "bc"]] * 8), "x": np.float32([[k % 2, 1] for k in range(8)])}
    out = tmp_path / "o.edgeopt"
    optimize(tmp_path / "m.onnx", out, data=data, profile=quick_profile, time_limit_s=1.0)
    assert {run["y"].shape for run in read_bundle(out).golden("outputs")} == {(1, 1), (1, 2)}
    assert check(out, ignore).accuracy_db == 200


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"out": "notes"}, UsageError, "is not a bundle"),
        ({"floor": "loud"}, UsageError, "no accuracy floor"),
        ({"model": "nowhere.onnx"}, ModelError, "nowhere"),
    ],
)
def test_wrong_arguments_are_said_before_any_work(tmp_path, relu_model, options, error, says):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("mine")
    said = []
    given = {"model": relu_model, "out": "out.edgeopt", **options}
    with pytest.raises(error, match=says):
        optimize(tmp_path / given.pop("model"), tmp_path / given.pop("out"), emit=said.append, **given)
    assert len(said) <= 1
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]
    assert (tmp_path / "notes/mine.txt").read_text() == "mine"


def test_a_model_that_draws_random_numbers_cannot_be_checked_and_is_refused(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) { r = RandomNormalLike(x)  y = Add(x, r) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "random.onnx")
    with pytest.raises(ModelError, match="differently each time"):
        optimize(tmp_path / "random.onnx", tmp_path / "out.edgeopt", time_limit_s=5)
    assert not (tmp_path / "out.edgeopt").exists()


def test_types_that_numpy_does_not_know_are_refused(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (bfloat16[4] y) { y = Cast <to = 16> (x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "brain.onnx")
    with pytest.raises(ModelError, match="bfloat16"):
        optimize(tmp_path / "brain.onnx", tmp_path / "out.edgeopt", time_limit_s=5)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_that_is_none(tmp_path, seconds):
    with pytest.raises(UsageError, match="no time limit"):
        optimize(tmp_path / "m.onnx", tmp_path / "out.edgeopt", time_limit_s=seconds)


def test_a_profile_limits_how_many_take_part(relu_model, tmp_path, quick_profile):
    few = tmp_path / "few.toml"
    few.write_text(quick_profile.read_text() + "[search]\nmax_candidates = 1\ntime_limit_s = 3\n")
    outcome = optimize(relu_model, tmp_path / "out.edgeopt", profile=few)
    made = [variant.name for variant in outcome.variants if not variant.failure]
    assert [report.candidate.variant for report in outcome.candidates] == made
    assert all(report.candidate.options == {} for report in outcome.candidates)
