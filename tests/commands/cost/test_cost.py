import math

import msgspec
import pytest

from edgeopt.bundle.deployment import Evidence, Replayed
from edgeopt.commands.bench.saved import save
from edgeopt.commands.cost.cost import check_terms, of_bundle, of_saved_run, read_load, read_prices
from edgeopt.commands.cost.figures import PriceTerms, Span
from edgeopt.errors import BundleError, InputError, UsageError
from edgeopt.measure.report import Comparison, ContestReport, Figures, SideReport
from edgeopt.measure.stats import Interval
from edgeopt.measure.workloads.records import (
    ConcurrencyReport,
    ConcurrencySide,
    Level,
    PacedReport,
    SustainedReport,
    SustainedSide,
)


@pytest.mark.parametrize(
    ("text", "per_s"), [("5000/s", 5000), ("5000", 5000), ("6k/min", 100), ("86.4M/day", 1000), ("3600 / h", 1)]
)
def test_loads(text, per_s):
    assert read_load(text) == pytest.approx(per_s)


@pytest.mark.parametrize("text", ["", "fast", "5/year", "-3/s", "0/s", "1.2.3/s", "5//s", "1e999"])
def test_what_is_no_load_is_said(text):
    with pytest.raises(UsageError, match="is not a load"):
        read_load(text)


def test_prices_for_all_and_for_one():
    assert read_prices(["0.5", "b=2"], ["a", "b"]) == {"a": 0.5, "b": 2.0}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([], "Missing option"),
        (["c=1"], "no device 'c'"),
        (["a=1"], "no price for 'b'"),
        (["1", "2"], "for all is given twice"),
        (["a=1", "a=2"], "of 'a' is given twice"),
        (["cheap"], "is not a price"),
        (["-1"], "above 0, not -1"),
        (["0"], "above 0, not 0"),
        (["inf"], "above 0, not inf"),
    ],
)
def test_what_is_wrong_with_prices_is_said(texts, says):
    with pytest.raises(UsageError, match=says) as raised:
        read_prices(texts, ["a", "b"])
    assert raised.value.hint


def test_a_currency_in_small_letters_will_do():
    assert check_terms(PriceTerms(currency="eur")).currency == "EUR"


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"currency": "EUX"}, "no currency 'EUX'"),
        ({"utilization_percent": 0}, "--utilization must be above 0"),
        ({"utilization_percent": 101}, "at most 100"),
        ({"hours_per_day": 25}, "at most 24"),
        ({"batch": 0}, "--batch must be 1 or more"),
        ({"devices": 0}, "--devices must be 1 or more"),
        ({"devices": 2, "load_per_s": 1}, "exclude each other"),
        ({"pay_back_months": -1}, "--pay-back-months must be above 0"),
        ({"engineering_hours": 5}, "needs --rate"),
        ({"hourly_rate": 5}, "needs --engineering-hours"),
        ({"engineering_hours": -5, "hourly_rate": 5}, "0 or more, not -5"),
    ],
)
def test_terms_that_make_no_sense_are_said(terms, says):
    with pytest.raises(UsageError, match=says) as raised:
        check_terms(PriceTerms(**terms))
    assert raised.value.hint


def side(name, per_s, **more):
    ms = 1e3 / per_s
    return SideReport(name, name, "model", figures=Figures(9, ms, ms, ms, ms, ms, 0, ms, ms, per_s), **more)


def faster(first, second, median=2.0, low=1.9, high=2.1):
    return Comparison(first, second, Interval(median, low, high, 9), "faster")


def saved(report, folder):
    save(report, folder / "run.json")
    return folder / "run.json"


def test_the_proof_of_a_bundle(conv_bundle):
    found = of_bundle(conv_bundle)
    assert (found.runs_per_s, found.counted, found.how) == (1000, False, "one request at a time")
    assert (found.baseline, found.baseline_runs_per_s) == ("source", 500)
    assert (found.speedup, found.verdict) == (Span(2.0, 1.9, 2.1), "faster")
    assert found.side == "conv.edgeopt on onnxruntime-cpu"
    assert found.measured_at.startswith("2026-01-01")


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        (None, "holds no evidence"),
        (Evidence("faster", "source", 2.0, 0.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, 3), "is invalid"),
    ],
)
def test_a_bundle_that_proves_nothing_is_refused(bundle, change_deployment, evidence, says):
    change_deployment(bundle, evidence=evidence)
    with pytest.raises(BundleError, match=says) as raised:
        of_bundle(bundle)
    assert "--measure" in raised.value.hint


def test_a_replayed_bundle_has_no_speed_until_it_is_measured(bundle, change_deployment):
    change_deployment(bundle, replayed=Replayed("2026-01-02", "0.1.0", measured=False, same_files=True))
    with pytest.raises(BundleError, match="was replayed and not measured again") as raised:
        of_bundle(bundle)
    assert "--measure" in raised.value.hint
    change_deployment(bundle, replayed=Replayed("2026-01-02", "0.1.0", measured=True, same_files=True))
    assert of_bundle(bundle).runs_per_s == 1000


def test_a_contest_counts_runs_and_compares_with_the_side_that_is_named(tmp_path):
    sides = (side("new", 900), side("old", 500), side("older", 300))
    run = saved(ContestReport(sides, (faster("new", "old"), faster("new", "older", 3, 2.8, 3.2))), tmp_path)
    found = of_saved_run(run, None)
    assert (found.side, found.baseline, found.runs_per_s, found.counted) == ("new", "old", 900, True)
    assert found.speedup == Span(2.0, 1.9, 2.1)
    assert of_saved_run(run, "older").speedup.value == 3
    with pytest.raises(InputError, match="not measured against 'oldest'") as raised:
        of_saved_run(run, "oldest")
    assert raised.value.exit_code == 3
    assert "'old', 'older'" in raised.value.message


def test_several_at_once_count_as_they_do_most(tmp_path):
    def levels(*per_s):
        found = [Level("threads", k + 1, 9, each, 1.0, 1.0) for k, each in enumerate(per_s)]
        open_end = Interval(1.0, 0.0, math.inf, 2)
        return (found[0], *(msgspec.structs.replace(each, gain=open_end) for each in found[1:]))

    sides = (ConcurrencySide("new", levels(1000, 1700)), ConcurrencySide("old", levels(600, 500)))
    found = of_saved_run(saved(ConcurrencyReport(sides, comparisons=(faster("new", "old", 2.8),)), tmp_path), None)
    assert (found.runs_per_s, found.how, found.baseline_runs_per_s) == (1700, "2 concurrent threads", 600)
    assert found.speedup.value == 2.8
    assert "The baseline has the highest throughput with one request at a time." in found.notes


def test_sustained_sides_give_throughput_and_no_speed_up(tmp_path):
    sides = (
        SustainedSide("new", seconds=300, throughput_per_s=800),
        SustainedSide("old", seconds=300, throughput_per_s=400),
    )
    found = of_saved_run(saved(SustainedReport(sides, 5, 5), tmp_path), None)
    assert (found.runs_per_s, found.speedup) == (800, None)
    assert found.how == "one request at a time, sustained for 5 min"
    assert "are not interleaved" in found.notes[0]


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (PacedReport(30, ()), "has no throughput"),
        (ContestReport(()), "no side ran"),
        (ContestReport((side("new", 900, failure="crashed: SIGSEGV"),)), "new did not finish: crashed: SIGSEGV"),
        (ConcurrencyReport((ConcurrencySide("new", (Level("threads", 1, failure="hung"),)),)), "finish: hung"),
    ],
)
def test_a_run_without_a_throughput_is_refused(tmp_path, report, says):
    with pytest.raises(InputError, match=says) as raised:
        of_saved_run(saved(report, tmp_path), None)
    assert raised.value.hint


def test_a_file_that_is_something_else_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"duty": "steady", "sides": 3, "rounds": 1}')
    with pytest.raises(InputError, match="is not a saved run"):
        of_saved_run(tmp_path / "x.json", None)
