import msgspec
import numpy as np
import pytest

from edgeopt.data.judging.goals import Goal, floor_from, goal_from
from edgeopt.data.judging.metric import Judged
from edgeopt.errors import UsageError
from edgeopt.graph.levels import Tail


def outputs(values):
    return [{"y": np.asarray([value], np.float32)} for value in values]


def test_without_a_word_it_is_transparent():
    assert goal_from() == Goal() == Goal("snr", 30.0, budget="transparent")
    assert str(goal_from()) == "at least 30 dB (transparent)"


DIVERGENCE = "Kullback-Leibler divergence from the source"
SAID = (
    (("snr", "balanced", None), "at least 20 dB (balanced)"),
    ((None, "42dB", None), "at least 42 dB"),
    (("cosine", "0.999", None), "cosine at least 0.999"),
    (("max-error", "0.01", None), "largest error at most 0.01"),
    ((None, "kl=0.05,top1=90%", None), f"{DIVERGENCE} at most 0.05, and top-1 agreement at least 90 %"),
    (("kl", "0.1,20dB", None), f"{DIVERGENCE} at most 0.1, and at least 20 dB, and top-1 agreement at least 93 %"),
    (("top1", "99%", None), "top-1 agreement with the source at least 99 %"),
    (("top1", "0.99", None), "top-1 agreement with the source at least 99 %"),
    (("top1", None, "1%"), "top-1 agreement with the source at least 99 %"),
    (("top1-labels", None, "0.4%"), "top-1 with labels at most 0.4 points below the source's"),
    (
        ("top1-labels", "aggressive", "0.4%"),
        "top-1 with labels at most 0.4 points below the source's, and at least 12 dB",
    ),
    (
        ("top1-labels", "90%,20dB", "1%"),
        "top-1 with labels at most 1 point below the source's and at least 90 %, and at least 20 dB",
    ),
)


@pytest.mark.parametrize(("words", "text"), SAID)
def test_goals_in_words(words, text):
    assert str(goal_from(*words)) == text


WRONG = (
    ((None, "aggressive", None), "is only allowed with a task metric", "balanced"),
    ((None, None, "1%"), "a value for the source model", "top1-labels"),
    (("top1", None, None), "needs a floor or a maximum drop", "--floor 99%"),
    (("top1-labels", None, None), "needs a floor or a maximum drop", "--max-drop"),
    (("cosine", None, "1%"), "so it has no drop", "--floor"),
    (("top1", "99", None), "is never 99", "99%"),
    (("cosine", "2", None), "is never 2", "between -1 and 1"),
    (("top1", "much", None), "is not a floor", "99%"),
    (("top1-labels", None, "-1%"), "how much worse", "0 or more"),
    (("top1-labels", None, "0.4"), "would be 40 points", "0.4%"),
    (("top1-labels", None, "much"), "is not a drop", "Give a number"),
    (("kl", None, "1%"), "so it has no drop", "--floor"),
    ((None, "top5=9", None), "'top5' has no floor", "kl=0.02,top1=93%"),
    ((None, "top1=93", None), "is never 93", "93%"),
    ((None, "top1=93%%", None), "is not a floor", "99%"),
    ((None, "top1=200%", None), "is never 200%", "between 0 and 1."),
    (("nothing", None, None), "no metric 'nothing'", "There are"),
)


@pytest.mark.parametrize(("words", "said", "hint"), WRONG)
def test_what_is_no_goal(words, said, hint):
    with pytest.raises(UsageError, match=said) as raised:
        goal_from(*words)
    assert hint in raised.value.hint


def test_the_ratio_must_hold_on_others_too():
    """30.2 dB here, and by resampling perhaps 29.6 elsewhere: below the floor of 30."""
    goal = Goal()
    assert not goal.met(Judged("snr", 30.2, 29.6, 16))
    assert goal.met(Judged("snr", 31.0, 30.1, 16))


def test_the_worst_tenth_of_the_samples_may_be_3_db_below_the_floor():
    goal = goal_from(None, "30dB")
    held, broken = (
        Judged("snr", 34.0, 32.0, 16, snr_db=34.0, low_db=32.0, tail=Tail(lowest, tenth))
        for lowest, tenth in ((26.0, 27.5), (26.0, 26.5))
    )
    assert goal.met(held)
    assert not goal.met(broken)
    assert goal.score(broken)[0] < goal.needed, "a proof is judged by the value"
    assert goal.tail_words(held.tail) == ""
    assert goal.tail_words(broken.tail) == ", the worst tenth of them 26.5"
    assert goal_from("top1", "90%").tail_lacks(broken.tail) == 0.0


def test_rare_samples_break_a_floor_that_all_together_keep():
    """32 samples of one level, three of which come out at 20 dB."""
    noise = np.random.default_rng(0).normal(size=(32, 2, 100))
    errors = [0.1 if k in {3, 9, 20} else 0.01 for k in range(32)]
    reference = [{"y": each[0]} for each in noise]
    got = [{"y": each[0] + error * each[1]} for each, error in zip(noise, errors, strict=True)]
    judged = goal_from(None, "24dB").judge(got, reference)
    assert judged.value > 28
    assert 18 < judged.tail.lowest_db < 22
    assert not goal_from(None, "24dB").met(judged)


def near(count, wrong, size=10):
    """Returns scores of `size` classes in turn, 40 dB from exact, with the first `wrong` classes moved by one."""
    places = np.arange(count) % size
    places[:wrong] = (places[:wrong] + 1) % size
    return outputs(np.eye(size)[places] * 1.01)


def test_counted_answers_are_met_by_the_value_and_shown_by_the_interval():
    goal = goal_from("top1", "95%")
    few, many = (goal.judge(near(n, 0), outputs(np.eye(10)[np.arange(n) % 10])) for n in (4, 100))
    assert few.value == many.value == 1
    assert goal.met(few)
    assert (goal.evidence(few), goal.evidence(many)) == ("not shown", "shown")
    assert not goal.proves(few)
    assert goal_from("top1", "95%", accept_unproven=True).proves(few)


def test_equal_outputs_show_every_goal_that_compares_with_the_source():
    goal, labels = goal_from("top1-labels", None, "0.5%"), np.arange(8) % 10
    same = outputs(np.eye(10)[labels])
    assert goal.evidence(goal.judge(same, same, labels)) == "shown"
    assert goal.evidence(goal.judge(near(8, 0), same, labels)) == "not shown"


def test_a_drop_that_the_samples_cannot_decide_says_how_many_would():
    goal, labels = goal_from("top1-labels", None, "0.5%"), np.arange(448) % 10
    judged = goal.judge(near(448, 1), outputs(np.eye(10)[labels]), labels)
    said = goal.describe_unproven(judged)
    assert said.startswith("top-1 with labels 99.78 % [98.7 100] against 100 %, drop 0.223 points [-0.629 1.25]")
    assert "on 448 samples, limit 0.5 points: not shown; about 2,500 samples" in said
    assert goal.samples_needed(judged) == 2500


def test_a_planted_drop_is_refuted_and_no_number_of_samples_helps():
    goal, labels = goal_from("top1-labels", None, "0.5%"), np.arange(900) % 10
    judged = goal.judge(near(900, 18), outputs(np.eye(10)[labels]), labels)
    assert goal.evidence(judged) == "missed"
    assert not goal_from("top1-labels", None, "0.5%", accept_unproven=True).proves(judged)
    assert goal.samples_needed(judged) is None


def test_one_wrong_answer_of_few_does_not_end_a_candidate_before_its_proof():
    goal, labels = goal_from("top1-labels", None, "0.5%"), np.arange(24) % 10
    source = outputs(np.eye(10)[labels])
    assert goal.may_meet(goal.judge(near(24, 1), source, labels))
    assert not goal.may_meet(goal.judge(near(24, 12), source, labels))


def test_a_slow_metric_without_an_interval_shows_nothing():
    goal = Goal("top1-labels", None, max_drop=0.01, budget="")
    unknown = Judged("top1-labels", 0.9, 0.9, 50, source=0.9, drop=0.0)
    assert goal.evidence(unknown) == "not shown"


def test_a_drop_is_held_against_the_source_and_not_against_one():
    goal = goal_from("top1-labels", None, "1%")
    scores, labels = outputs(np.eye(5)), np.array([0, 1, 2, 3, 0])
    judged = goal.judge(scores, scores, labels)
    assert (judged.value, judged.source) == (0.8, 0.8)
    assert goal.met(judged)
    worse = outputs([np.eye(5)[1], *np.eye(5)[1:]])
    assert not goal.met(goal.judge(worse, scores, labels))


def test_more_is_better_on_the_scale_of_scores_whatever_the_metric():
    small = goal_from("max-error", "0.5")
    near, far = (small.judge(outputs([[d, 0.0]]), outputs([[0.0, 0.0]])) for d in (0.1, 0.9))
    assert small.score(near)[0] > small.needed > small.score(far)[0]
    assert small.met(near)
    assert not small.met(far)


def test_a_ratio_beside_the_metric_counts_too():
    goal = goal_from("top1", "90%,20dB")
    scores = outputs(np.eye(4))
    rough = outputs(np.eye(4) * 0.5)  # the same answers, at 6 dB
    assert goal.met(goal.judge(scores, scores))
    assert not goal.met(goal.judge(rough, scores))
    assert goal.score(goal.judge(rough, scores))[0] < goal.needed


def test_what_cannot_be_compared_meets_nothing():
    goal = goal_from("max-error", "1e9")
    broken = goal.judge([{"y": np.array([np.nan])}], [{"y": np.array([1.0])}])
    assert broken.problem
    assert not goal.met(broken)


def test_a_goal_survives_json():
    goal = goal_from("top1-labels", "aggressive", "0.4%")
    assert msgspec.json.decode(msgspec.json.encode(goal), type=Goal) == goal


@pytest.mark.parametrize(
    ("text", "db"),
    [
        ("exact", 80), ("transparent", 30), ("balanced", 20), ("Transparent", 30), (" balanced ", 20),
        ("30dB", 30), ("30DB", 30), ("30 db", 30), ("30", 30), ("12.5dB", 12.5), ("150", 150), ("0.5", 0.5),
    ],
)  # fmt: skip
def test_floors(text, db):
    assert floor_from(text) == db


def test_a_budget_that_only_a_metric_of_the_task_can_judge():
    with pytest.raises(UsageError, match="is only allowed with a task metric") as raised:
        floor_from("Aggressive")
    assert "balanced (20 dB)" in raised.value.hint
    assert floor_from("aggressive", beside_metric=True) == 12


@pytest.mark.parametrize("text", ["", "dB", "loud", "0", "-30", "151", "nan", "inf", "30%", "30 dB dB", "1e9"])
def test_what_is_no_floor(text):
    with pytest.raises(UsageError, match="not an accuracy floor") as raised:
        floor_from(text)
    assert "transparent (30 dB)" in raised.value.hint


def test_the_floor_of_a_metric_where_less_is_better_is_stated_as_given(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\n\ndef error(outputs, reference, labels):\n"
        "    return np.abs(outputs['y'] - reference['y']).mean(axis=1) * 100\n\n\nerror.smaller_is_better = True\n"
    )
    goal = goal_from(f"{tmp_path / 'mine.py'}:error", "0.31")
    source = outputs(np.eye(10)[np.arange(12) % 10])
    judged = goal.judge(outputs(np.eye(10)[np.arange(12) % 10] * np.linspace(1.0, 1.06, 12)[:, None]), source)
    assert goal.evidence(judged) == "not shown"
    assert "error 0.3 [0.118 0.579] on 12 samples, floor 0.31: not shown" in goal.describe_unproven(judged)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 0, 0, 0], ["All 4 labels are of class 0: a drop in other classes does not show"]),
        ([1, 2, 1, 2], ["The source model has top-1 with labels 0 %, so a drop cannot show"]),
        ([1, 1, 1, 1], ["All 4 labels are of class 1", "The source model has top-1 with labels 0 %"]),
        ([0, 1, 0, 2], []),
    ],
    ids=["one class", "all wrong", "one class, all wrong", "ordinary"],
)
def test_labels_that_cannot_show_a_drop_are_named(labels, expected):
    scores = [{"y": np.float32([[3.0, 1.0, 2.0]])}] * 4
    goal, labels = goal_from("top1-labels", max_drop="1%"), np.array(labels)
    warnings = goal.label_warnings(goal.judge(scores, scores, labels), labels)
    assert len(warnings) == len(expected)
    assert all(each.startswith(start) for each, start in zip(warnings, expected, strict=True))
    assert goal_from(None, "30dB").label_warnings(goal.judge(scores, scores, labels), labels) == []
