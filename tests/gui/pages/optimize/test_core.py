"""The words that the page offers are the core's own, and so is what it says is wrong."""

import pytest

from edgeopt.commands.export.export import FORMATS
from edgeopt.data.judging.metrics import METRICS
from edgeopt.search.objectives import OBJECTIVES
from edgeopt_gui.pages.optimize.choices import METRIC, OWN_FUNCTION, Choices
from edgeopt_gui.pages.optimize.core import Problems, problems, vocabulary


def test_everything_that_the_core_knows_is_offered():
    words = vocabulary()
    assert [each.name for each in words.objectives] == [each.name for each in OBJECTIVES]
    assert [each.name for each in words.forms] == [each.name for each in FORMATS]
    assert {each.name for each in words.metrics} == {each.name for each in METRICS} - {"snr"}


def test_the_usual_choices_have_no_problem():
    assert problems(Choices()) == Problems()
    assert problems(Choices()).first == ""


@pytest.mark.parametrize(
    ("choices", "group", "said"),
    [
        (Choices(max_memory_mib="-3"), "limits", "'Memory at most' -3 is not a possible limit."),
        (Choices(max_size_mib="many"), "limits", "'many' is not a number."),
        (Choices(max_latency_ms="nan"), "limits", "'nan' is not a number."),
        (Choices(target_speedup="1"), "speedup", "A target of 1x is not a speed-up."),
        (Choices(METRIC, metric="top1"), "accuracy", "The metric 'top1' needs a floor or a maximum drop."),
        (Choices(METRIC, metric="top1-labels", max_drop="1"), "accuracy", "'Drop at most' 1 would be 100 points."),
        (Choices(METRIC, metric=OWN_FUNCTION, value="0.9"), "accuracy", "No function is given."),
        (Choices(METRIC, metric=OWN_FUNCTION, function="m.py:f"), "accuracy", "The metric needs a value"),
    ],
)
def test_what_is_wrong_is_said_of_its_field(choices, group, said):
    found = problems(choices)
    assert getattr(found, group).startswith(said)
    assert found.first == getattr(found, group)


def test_what_is_chosen_of_a_metric_counts_only_with_the_metric():
    assert problems(Choices("exact", metric="top1", max_drop="much")) == Problems()


def test_a_function_of_the_users_is_not_run_to_see_whether_it_is_there(tmp_path):
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    own = Choices(METRIC, metric=OWN_FUNCTION, function=f"{tmp_path / 'own.py'}:judge", value="0.9")
    assert problems(own) == Problems()
    assert not (tmp_path / "ran").exists()
