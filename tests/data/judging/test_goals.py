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


SAID = (
    (("snr", "balanced", None), "at least 20 dB (balanced)"),
    ((None, "42dB", None), "at least 42 dB"),
    (("cosine", "0.999", None), "cosine at least 0.999"),
    (("max-error", "0.01", None), "largest error at most 0.01"),
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
        "top-1 with labels at most 1 points below the source's and at least 90 %, and at least 20 dB",
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


def test_counted_answers_are_met_by_the_value_and_sure_by_the_bound():
    goal = goal_from("top1", "95%")
    judged = goal.judge(outputs(np.eye(4)), outputs(np.eye(4)))
    assert judged.value == 1
    assert goal.met(judged)
    assert not goal.sure(judged), "four samples do not prove 95 %"


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
