import math

import msgspec
import pytest

from edgeopt.commands.bench.saved import read_result, save
from edgeopt.errors import InputError, UsageError
from edgeopt.events import Result, encode
from edgeopt.measure.files import check_place
from edgeopt.measure.report import Comparison, ContestReport
from edgeopt.measure.stats import Interval


def test_what_is_saved_is_read_back(report, tmp_path):
    made = report({"a": 10.0, "b": 5.0})
    made = msgspec.structs.replace(
        made, comparisons=(Comparison("a", "b", Interval(0.5, 0.4, 0.6, 30), "slower"),)
    )
    save(made, tmp_path / "run.json")
    assert msgspec.convert(read_result(tmp_path / "run.json"), ContestReport) == made
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_an_open_interval_does_not_make_a_run_unreadable(report, tmp_path):
    open_end = Comparison("a", "b", Interval(1.0, 0.0, math.inf, 2), "too few rounds to tell")
    made = msgspec.structs.replace(report({"a": 10.0}), comparisons=(open_end,))
    save(made, tmp_path / "run.json")
    assert msgspec.convert(read_result(tmp_path / "run.json"), ContestReport) == made


def test_the_lines_of_json_are_read_too(report, tmp_path):
    made = report({"a": 10.0})
    lines = [
        '{"event":"progress","phase":"loading","schema":1}',
        encode(Result("bench", msgspec.to_builtins(made))),
    ]
    (tmp_path / "run.jsonl").write_text("\n".join(lines) + "\n")
    assert msgspec.convert(read_result(tmp_path / "run.jsonl"), ContestReport) == made


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        ("", "is not a saved run"),
        ("not json", "is not a saved run"),
        ("[1, 2]", "is not a saved run"),
        ('{"event": "error", "message": "It failed."}', "failed: It failed."),
        ('{"event": "result", "kind": "probe", "data": {}}', "is 'probe', not a result of edgeopt bench"),
        ('{"sides": [], "rounds": 1, "schema": 99}', "newer edgeopt"),
        ('{"sides": [], "comparisons": [3]}', "is not a saved run"),
    ],
)
def test_what_is_no_saved_run_is_said(content, says, tmp_path):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError) as raised:
        read_result(tmp_path / "run.json")
    assert says in raised.value.message
    assert raised.value.hint


def test_a_failed_write_leaves_the_older_file(report, tmp_path, monkeypatch):
    save(report({"a": 10.0}), tmp_path / "run.json")
    before = (tmp_path / "run.json").read_bytes()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(report({"b": 1.0}), tmp_path / "run.json")
    assert (tmp_path / "run.json").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    ("place", "says"),
    [("folder", "that is a folder"), ("nowhere/run.json", "does not exist"), ("link.json", "does not exist")],
)
def test_a_place_that_cannot_be_written_is_refused_at_once(place, says, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere" / "run.json")
    with pytest.raises(UsageError, match=says):
        check_place(tmp_path / place, "The report")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "link.json"]
