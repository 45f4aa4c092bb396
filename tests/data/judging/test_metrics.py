import math

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.judging.goals import goal_from
from edgeopt.data.judging.metrics import METRICS, judged_with_ratio, labels_for, metric_named
from edgeopt.data.read import load_data
from edgeopt.errors import DataError, UsageError


def runs(*shape, samples=8, name="y", seed=0):
    random = np.random.default_rng(seed)
    return [{name: random.standard_normal(shape).astype(np.float32)} for _ in range(samples)]


def noisy(outputs, share, seed=1):
    random = np.random.default_rng(seed)
    return [
        {
            name: (value + share * random.standard_normal(value.shape)).astype(np.float32)
            for name, value in run.items()
        }
        for run in outputs
    ]


def judge(name, got, reference, labels=None):
    return metric_named(name).judge(got, reference, labels)


def answers(classes, right, samples):
    """Scores whose best class is `right[k]`."""
    return [{"y": np.eye(classes, dtype=np.float32)[[right[k]]]} for k in range(samples)]


def test_the_ratio_is_that_of_the_noise():
    reference = runs(1, 4000)
    found = judge("snr", noisy(reference, 0.1), reference)
    assert found.value == pytest.approx(20, abs=0.3)
    assert 19 < found.low < found.value


def test_the_worst_output_decides_and_the_mean_is_told():
    reference = [{"a": a["y"], "b": b["y"]} for a, b in zip(runs(1, 999), runs(1, 999, seed=5), strict=True)]
    got = [{"a": run["a"] * 1.001, "b": run["b"] * 1.1} for run in reference]
    found = judge("snr", got, reference)
    assert [(o.name, round(o.value)) for o in found.outputs] == [("a", 60), ("b", 20)]
    assert (round(found.value), round(found.mean)) == (20, 40)


def test_the_cosine_is_taken_for_each_sample():
    """One sample of large values does not hide that another is turned round."""
    reference = [{"y": np.array([1e3, 0], np.float32)}, {"y": np.array([0, 1], np.float32)}]
    found = judge("cosine", [reference[0], {"y": np.array([0, -1], np.float32)}], reference)
    assert found.value == pytest.approx(0.0)
    assert found.low < 0


def test_of_the_largest_error_less_is_better():
    reference = runs(1, 10)
    got = [dict(run) for run in reference]
    got[3] = {"y": reference[3]["y"] + 0.5}
    found = judge("max-error", got, reference)
    assert found.value == pytest.approx(0.5)
    assert found.smaller_is_better


def test_agreement_counts_the_same_best_class():
    reference = answers(10, [1] * 20, 20)
    got = answers(10, [1] * 18 + [2] * 2, 20)
    found = judge("top1", got, reference)
    assert found.value == pytest.approx(0.9)
    assert (found.low, found.high) == pytest.approx((0.699, 0.972), abs=0.001), "Wilson's interval at 95 %"


def test_all_equal_is_no_proof_that_all_will_be():
    reference = answers(10, [1] * 16, 16)
    assert judge("top1", reference, reference).value == 1
    assert 0.75 < judge("top1", reference, reference).low < 0.85


def test_the_best_five_are_compared_as_sets():
    first = [{"y": np.arange(20, dtype=np.float32)[None]}]
    moved = np.arange(20, dtype=np.float32)[None]
    moved[0, 15] = -1  # one of the best five falls out
    assert judge("top5", [{"y": moved}], first).value == pytest.approx(0.8)
    swapped = first[0]["y"][:, ::1].copy()
    swapped[0, [18, 19]] = swapped[0, [19, 18]]
    assert judge("top5", [{"y": swapped}], first).value == 1


def test_agreement_looks_only_at_outputs_with_scores():
    reference = [{"y": np.ones((1, 3), np.float32), "count": np.array([4]), "one": np.ones((1, 1), np.float32)}]
    assert [o.name for o in judge("top1", reference, reference).outputs] == ["y"]
    with pytest.raises(UsageError, match="scores of at least 6 classes"):
        judge("top5", reference, reference)


def test_labels_give_the_source_a_value_too():
    labels = np.arange(100) % 10
    right = labels.copy()
    right[:2] = 9 - right[:2]
    worse = right.copy()
    worse[50:53] = (worse[50:53] + 1) % 10
    found = judge("top1-labels", answers(10, worse, 100), answers(10, right, 100), labels)
    assert (found.value, found.source) == (pytest.approx(0.95), pytest.approx(0.98))
    assert found.drop == pytest.approx(0.03)
    assert 0.03 < found.drop_high < 0.1
    assert found.low < 0.95


def test_a_drop_that_few_samples_do_not_show_is_still_possible():
    labels = np.zeros(20, int)
    same = answers(10, labels, 20)
    assert judge("top1-labels", same, same, labels).drop_high > 0.02
    many = answers(10, np.zeros(1000, int), 1000)
    assert judge("top1-labels", many, many, np.zeros(1000, int)).drop_high < 0.004


def test_a_sample_may_have_several_rows_of_labels():
    scores = [{"y": np.eye(4, dtype=np.float32)[None, [0, 1, 2]]}] * 2
    found = judge("top1-labels", scores, scores, np.array([[0, 1, 2], [0, 1, 3]]))
    assert found.value == pytest.approx(5 / 6)


@pytest.mark.parametrize("labels", [np.full(4, 12), np.zeros((4, 3), int)])
def test_labels_that_fit_no_output_are_told_with_the_shapes(labels):
    outputs = answers(10, [0] * 4, 4)
    with pytest.raises(DataError, match=r"no output has scores for them \(shapes: 'y' \[1, 10\]\)"):
        judge("top1-labels", outputs, outputs, labels)


def test_without_labels_it_is_said_where_they_go():
    outputs = answers(10, [0], 1)
    with pytest.raises(DataError, match="needs labels") as raised:
        judge("top1-labels", outputs, outputs)
    assert "--labels NAME" in raised.value.hint


@pytest.mark.parametrize("metric", [m.name for m in METRICS])
def test_outputs_that_cannot_be_compared_are_infinitely_bad_and_say_why(metric):
    reference = runs(1, 10)
    got = [{"y": np.full((1, 10), np.nan, np.float32)} for _ in reference]
    found = judge(metric, got, reference, np.zeros(8, int))
    assert found.value == (math.inf if found.smaller_is_better else -math.inf)
    assert "is not finite" in found.problem


@pytest.mark.parametrize("metric", [m.name for m in METRICS])
def test_the_bound_is_never_better_than_the_value(metric):
    reference = runs(1, 10, samples=12)
    found = judge(metric, noisy(reference, 0.3), reference, np.arange(12) % 10)
    worse = found.low >= found.value if found.smaller_is_better else found.low <= found.value
    assert worse
    assert found.samples == 12


def test_every_value_comes_with_the_ratio_in_db():
    reference = runs(1, 1000)
    found = judged_with_ratio(metric_named("top1"), noisy(reference, 0.01), reference, None)
    assert found.snr_db == pytest.approx(40, abs=1)
    assert found.low_db <= found.snr_db


def test_an_unknown_metric_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="no metric 'top-1'") as raised:
        metric_named("top-1")
    assert "Did you mean 'top1'?" in raised.value.hint
    assert "file.py:function" in raised.value.hint


def test_of_samples_of_several_levels_the_weakest_decides():
    reference = [{"y": loudness * run["y"]} for loudness, run in zip((1, 1, 1, 0.01), runs(1, 1000), strict=False)]
    drawn = np.random.default_rng(5)
    got = [{"y": run["y"] + 0.01 * drawn.standard_normal(run["y"].shape)} for run in reference]
    levels = [(1.0,), (1.0,), (1.0,), (0.01,)]
    for name in ("snr", "cosine"):
        together = judged_with_ratio(metric_named(name), got, reference, None)
        apart = judged_with_ratio(metric_named(name), got, reference, None, levels)
        assert together.low_db > 35
        assert together.weakest is None
        assert apart.snr_db < 5
        assert apart.low_db <= apart.snr_db
        assert apart.pooled_low_db == together.low_db
        assert apart.weakest.share == pytest.approx(0.01)
    assert judged_with_ratio(metric_named("snr"), got, reference, None, levels).value < 5
    alike = judged_with_ratio(metric_named("snr"), got, reference, None, [(1.0,)] * 4)
    assert alike == judged_with_ratio(metric_named("snr"), got, reference, None)


TOP1 = metric_named("top1-labels")


@pytest.fixture
def read(tmp_path):
    """Writes data of six samples with these arrays beside the input, and reads the labels from it."""

    def write(name="", metric=TOP1, folder=False, **arrays):
        arrays = {"x": np.zeros((6, 2), np.float32), **arrays}
        path = tmp_path / "data"
        if folder:
            path.mkdir()
            for each, array in arrays.items():
                np.save(path / f"{each}.npy", array)
        else:
            path = tmp_path / "data.npz"
            np.savez(path, **arrays)
        samples = load_data(path, (TensorInfo("x", "float32", (None, 2)),))
        return labels_for(metric, path, samples, name)

    return write


@pytest.mark.parametrize("name", ["label", "labels"])
@pytest.mark.parametrize("folder", [False, True])
def test_labels_are_found_by_their_usual_names(read, name, folder):
    assert read(folder=folder, **{name: np.arange(6)}).tolist() == [0, 1, 2, 3, 4, 5]


def test_another_name_can_be_given(read):
    assert read("truth", truth=np.ones(6), label=np.zeros(6)).tolist() == [1] * 6


def test_floats_that_are_whole_numbers_will_do(read):
    assert read(label=np.arange(6.0)[:, None]).dtype.kind == "i"


def test_a_metric_that_takes_no_labels_gets_none(read):
    assert read(metric=metric_named("top1"), label=np.arange(6)) is None


def test_a_metric_of_the_users_own_gets_whatever_there_is(read, tmp_path):
    (tmp_path / "mine.py").write_text("def score(outputs, reference, labels):\n    return 1\n")
    mine = metric_named(f"{tmp_path / 'mine.py'}:score")
    assert read(metric=mine, label=np.array(list("abcdef"))).tolist() == list("abcdef")
    assert read(metric=mine) is None


WRONG = (
    ("", {}, "no array 'label' or 'labels'; it has only the model's inputs"),
    ("", {"truth": np.zeros(6)}, "besides the inputs it has 'truth'"),
    ("truth", {"label": np.zeros(6)}, "no array 'truth'; besides the inputs it has 'label'"),
    ("x", {"label": np.zeros(6)}, "'x' is an input of the model"),
    ("", {"label": np.zeros(5)}, "holds 5 labels for 6 samples"),
    ("", {"label": np.array(3)}, "for 6 samples"),
    ("", {"label": np.array(list("abcdef"))}, "not numbers"),
    ("", {"label": np.full(6, 0.5)}, "not all whole numbers from 0"),
    ("", {"label": np.full(6, np.nan)}, "not all whole numbers from 0"),
    ("", {"label": np.full(6, -1)}, "not all whole numbers from 0"),
)


@pytest.mark.parametrize(("name", "arrays", "said"), WRONG)
def test_labels_that_are_missing_or_wrong_are_said(read, name, arrays, said):
    with pytest.raises(DataError, match=said) as raised:
        read(name, **arrays)
    assert raised.value.hint


def test_divergence_and_agreement_of_tokens_are_over_positions_and_name_the_worst_text():
    random = np.random.default_rng(0)
    reference = [{"logits": random.standard_normal((1, count, 50)).astype(np.float32)} for count in (30, 10, 20)]
    got = [{"logits": each["logits"].copy()} for each in reference]
    got[1]["logits"] += 2 * random.standard_normal(got[1]["logits"].shape).astype(np.float32)
    goal = goal_from("kl")
    same, found = goal.judge(reference, reference), goal.judge(got, reference)
    assert (same.value, same.tokens.top1) == (0.0, 1.0)
    assert goal.proves(same)
    shares = [np.exp(side[1]["logits"][0]) for side in (reference, got)]
    first, second = (each / each.sum(axis=1, keepdims=True) for each in shares)
    divergence = (first * np.log(first / second)).sum()
    assert found.value == pytest.approx(divergence / 60, rel=1e-4)
    assert found.tokens.worst_kl == pytest.approx(divergence / 10, rel=1e-4)
    assert (found.tokens.positions, found.tokens.worst_sample) == (60, 1)
    assert found.high <= found.value <= found.low
    figures, tokens = found.token_figures, found.tokens
    assert (figures.kl_low, figures.kl, figures.kl_high) == (found.high, found.value, found.low)
    assert (figures.top1_low, figures.top1, figures.top1_high) == (tokens.top1_low, tokens.top1, tokens.top1_high)
    assert goal_from("cosine", "0.9").judge(got, reference).token_figures is None
    assert "worst text" in goal.describe(found)


def test_a_decoder_is_refused_for_its_tokens_although_its_divergence_is_small():
    # Two tokens are nearly as likely: a small change swaps them at every position.
    reference = [{"logits": np.tile(np.float32([3.0, 2.999, -5.0, -5.0]), (1, 16, 1))} for _ in range(8)]
    got = [{"logits": each["logits"][..., [1, 0, 2, 3]]} for each in reference]
    goal = goal_from(None, "kl=0.02")
    judged = goal.judge(got, reference)
    assert judged.low < 0.02
    assert judged.tokens.top1 == 0
    assert not goal.met(judged)
    assert goal.met(goal.judge(reference, reference))


def test_the_divergence_needs_logits():
    one = [{"y": np.float32([1.0])}]
    with pytest.raises(UsageError, match="No output has scores of tokens"):
        goal_from("kl").judge(one, one)
