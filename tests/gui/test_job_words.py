import pytest

from edgeopt.events import Progress
from edgeopt_gui.job_words import loss, percent, status, time_left
from edgeopt_gui.jobs.command import Command

COMMAND = Command("Optimizing a.onnx", ("optimize",))


def test_where_a_job_stands_is_one_short_line():
    assert status(COMMAND, None) == "Optimizing a.onnx"
    assert status(COMMAND, Progress("racing", done=3, total=9)) == "Optimizing a.onnx · racing · 3 of 9"


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, ""), (0.2, ""), (12.4, "12 s left"), (89, "89 s left"), (600, "10 min left")]
)
def test_the_time_left_is_told_as_a_person_would(seconds, said):
    assert time_left(seconds) == said


def test_the_share_that_is_done_is_not_invented():
    assert percent(Progress("racing")) is None
    assert percent(Progress("racing", done=1, total=0)) is None
    assert percent(Progress("racing", done=3, total=4)) == 75
    assert percent(Progress("racing", done=9, total=4)) == 100
    assert percent(Progress("racing", done=3, total=4), share_of_time=0.2) == 20


def test_what_happens_at_an_agent_is_not_how_far_watching_it_has_come():
    watching = Command("Watching the agent", ("fleet", "watch", "--url", "pi"))
    assert status(watching, Progress("failed", subject="deployment 3")) == "Watching the agent"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("watch m.onnx", ""),
        ("fleet watch --url pi", ""),
        ("fleet status --url pi", ""),
        ("analyze m.onnx --quick", ""),
        ("optimize m.onnx -o o.edgeopt", "The search ends without a bundle"),
        ("optimize m.onnx -o o.edgeopt --pick 3", "The other candidate is not delivered."),
        ("optimize m.onnx -o o.edgeopt --device pi5.json", "The plan is not written."),
        ("export o.edgeopt -o o", "The files are not written."),
        ("fleet deploy o.edgeopt --url pi", "The agent may still finish"),
    ],
)
def test_what_is_lost_with_a_job_is_told(line, said):
    told = loss(Command("", tuple(line.split())))
    assert told.startswith(said)
    assert bool(told) == bool(said)
