from edgeopt import events
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.log_lines import JobStory, LogLine

COMMAND = Command("Optimizing a.onnx", ("optimize", "my model.onnx"))


def texts(*told):
    story = JobStory(COMMAND)
    return [line.text for line in map(story.told, told) if line is not None]


def test_a_job_begins_with_what_one_could_type():
    line = JobStory(COMMAND).begun()
    assert (line.job, line.text) == ("Optimizing a.onnx", "$ edgeopt optimize 'my model.onnx'")


def test_a_phase_is_told_once_and_numbers_are_not():
    assert texts(
        events.Progress("screening", done=1, total=9),
        events.Metric("latency_ms", 1.0),
        events.Progress("screening", done=2, total=9),
        events.Progress("racing"),
    ) == ["screening", "racing"]


def test_what_happened_to_a_candidate_is_told_when_it_is_decided():
    racing = events.Standing("ort int8", "racing", speedup=1.2)
    lost = events.Standing("ort int8", "lost", "2.0 % slower than the best")
    assert texts(racing, racing, lost) == ["ort int8: lost: 2.0 % slower than the best"]


def test_endings_are_errors_unless_they_were_wanted():
    story = JobStory(COMMAND)
    failed = story.ended(Ending("failed", {}, "The disk is full.", "Free some space."))
    assert (failed.level, failed.text) == ("error", "The disk is full. Free some space.")
    assert story.ended(Ending("cancelled", {}, "Cancelled; nothing was changed.")).level == "info"
    assert story.ended(Ending("done", {})).text == "Done."


def test_a_warning_keeps_its_level_and_stands_on_one_line():
    line = JobStory(COMMAND).told(events.Log("warning", "two\nlines"))
    assert (line.level, line.text) == ("warning", "two lines")


def test_a_line_is_copied_with_its_time_and_job():
    line = LogLine("error", "Probing", "No.", time_s=0.0)
    assert line.plain.split("\t")[1:] == ["error", "Probing", "No."]
    assert line.plain.startswith(("1970-01-01", "1969-12-31"))
