"""Limits that fail a build, with models whose speed is known: one takes three times as long as the other."""

import json
import re

import pytest

from edgeopt.cli.bench_show import limits_on_page
from edgeopt.commands.bench import bench
from edgeopt.measure.report import Check, Judgement, Limits
from edgeopt.measure.stats import Interval
from edgeopt.views.blocks import Table


@pytest.fixture
def edgeopt(edgeopt_here):
    return edgeopt_here


@pytest.fixture(scope="module")
def reports():
    """What was measured, by what was asked for."""
    return {}


@pytest.fixture
def sides(null_model, null_data, reports, monkeypatch):
    """The arguments that name a slow and a fast model, and their data; the same contest is measured once."""
    measure = bench.contest

    def once(host, sides, rules, *how):
        key = (tuple(side.name for side in sides), rules)
        if key not in reports:
            reports[key] = measure(host, sides, rules, *how)
        return reports[key]

    monkeypatch.setattr(bench, "contest", once)
    slow, fast = null_model("slow", latency_ms=3), null_model("fast", latency_ms=1)
    common = ["--data", null_data]
    return {
        "slower": ["bench", slow, "--against", fast, *common],
        "faster": ["bench", fast, "--against", slow, *common],
    }


def result(out):
    last = json.loads(out.splitlines()[-1])
    assert last["event"] == "result"
    return last["data"]


@pytest.mark.parametrize(
    ("who", "limits", "code", "states"),
    [
        ("faster", ["--max-slowdown", 0.02, "--min-speedup", 20], 4, ["held", "broken"]),
        ("slower", ["--max-slowdown", "1000%"], 0, ["held"]),
    ],
)
def test_programs_read_the_judgement_in_the_result(edgeopt, sides, who, limits, code, states):
    found, out, err = edgeopt(*sides[who], *limits, "--json")
    assert (found, err) == (code, "")
    judged = result(out)["judgement"]
    assert judged["passed"] == (code == 0)
    assert [each["state"] for each in judged["checks"]] == states
    ratio = judged["checks"][0]["speedup"]
    assert ratio == result(out)["comparisons"][0]["speedup"]
    assert result(out)["sides"][0]["figures"]["p50_ms"] > 0.9


def test_people_see_all_figures_and_why_the_build_failed(edgeopt, sides):
    code, out, err = edgeopt(*sides["slower"], "--max-slowdown", "2%")
    assert code == 4
    assert "slow.null.json is slower than fast.null.json: 0.3" in out
    assert "--max-slowdown 2% fails: slow.null.json against fast.null.json is 0.3" in out
    assert re.search(r"edgeopt: slow\.null\.json is \d\.\dx slower than fast\.null\.json; 2 % allowed\.", err)
    assert "Measured while" in err


def test_a_page_is_printed_in_full_and_the_code_is_4(edgeopt, sides, tmp_path):
    code, out, err = edgeopt(*sides["slower"], "--max-slowdown", "2%", "--markdown", "--save", "run.json")
    assert code == 4
    assert out.startswith("## edgeopt bench: slow.null.json against fast.null.json\n\n**slow.null.json is ")
    assert "| limit | against | speed-up | interval | least allowed | verdict |" in out
    assert out.count("| broken |") == 1
    assert "| side | p50 ms |" in out
    assert "\nMachine: Linux" in out
    assert re.search(r"edgeopt: slow\.null\.json is \d\.\dx slower than fast\.null\.json; 2 % allowed\.", err)
    assert json.loads((tmp_path / "run.json").read_text())["judgement"]["passed"] is False


@pytest.mark.processes
def test_a_side_that_crashes_passes_nothing(edgeopt, null_model, null_data):
    model, other = null_model(latency_ms=1), null_model("other", crash="run")
    common = ["--data", null_data, "--rounds", 6, "--max-slowdown", "2%"]
    code, out, err = edgeopt("bench", model, "--against", other, *common)
    assert code == 1
    assert (
        "could not be judged: model.null.json against other.null.json: 'other.null.json' crashed: SIGSEGV" in out
    )
    assert "--max-slowdown 2% against other.null.json could not be judged." in err
    code, out, _ = edgeopt("bench", other, "--against", model, *common, "--json")
    assert code == 1
    assert result(out)["judgement"]["passed"] is False


def test_too_few_rounds_pass_nothing(edgeopt, sides):
    code, out, _ = edgeopt(*sides["faster"], "--duty", "cold", "--rounds", 6, "--max-slowdown", "900%", "--json")
    assert code == 4
    (check,) = result(out)["judgement"]["checks"]
    assert (check["state"], check["measured"]) == ("not judged", "the time to the first answer")
    assert check["sentence"].endswith("too few rounds to tell.")


@pytest.mark.timing
@pytest.mark.parametrize(
    ("duty", "slow_ms", "measured"),
    [
        (["--duty", "paced", "--rate", 100], 5, "the median at this rate"),
        # Others on the machine take from what threads do a second: only ten times less is certain.
        (["--concurrency", "1,2"], 10, "runs a second"),
    ],
)
def test_other_duties_are_judged_too(edgeopt, sides, null_model, duty, slow_ms, measured):
    null_model("slow", latency_ms=slow_ms)
    code, out, _ = edgeopt(*sides["slower"], *duty, "--rounds", 9, "--max-slowdown", "10%", "--markdown")
    assert code == 4
    assert f"fast.null.json, by {measured} |" in out
    assert "| broken |" in out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--max-slowdown", "2%"], "there is no other side"),
        (["--min-speedup", "1.1", "--sweep", "latency_ms=1,2"], "a sweep does not compare sides"),
        (["--max-slowdown", "2%", "--against", "threads=1", "--duty", "sustained"], "get no verdict"),
        (["--max-slowdown", "2", "--against", "threads=1"], "is ambiguous: 2 % or 2 times"),
        (["--min-speedup", "10%", "--against", "threads=1"], "'10%' is not a limit"),
    ],
)
def test_a_limit_that_cannot_be_judged_is_wrong_usage(edgeopt, null_model, null_data, more, says):
    """Said before anything is measured: the model does not even load."""
    code, out, _ = edgeopt("bench", null_model(fail="load"), "--data", null_data, *more, "--json")
    assert code == 2
    (error,) = map(json.loads, out.splitlines())
    assert says in error["message"]
    assert error["hint"]


def test_json_and_markdown_exclude_each_other(edgeopt, tmp_path):
    (tmp_path / "m.null.json").write_text("{}")
    code, out, _ = edgeopt("bench", "m.null.json", "--json", "--markdown")
    assert code == 2
    assert "exclude each other" in out


def test_an_interval_without_an_end_is_not_printed():
    """A page said `0.000 to 2686951078216730673152.000` beside "no usable interval"."""
    wide = Interval(1.2, 1e-7, 2.6e21, 4, 0.998)
    check = Check("max-slowdown", 0.95, "a", "b", "undecided", True, "too noisy", wide)
    (table,) = [
        each for each in limits_on_page(Judgement(Limits(0.05), (check,), True)) if isinstance(each, Table)
    ]
    text = str(table)
    assert "no usable interval" in text
    assert "2600000" not in text
