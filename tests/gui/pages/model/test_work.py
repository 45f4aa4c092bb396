import msgspec
import pytest

from edgeopt.graph.analysis import CategoryRow, Cost, NodeRow
from edgeopt_gui.pages.model import work
from edgeopt_gui.pages.model.work import Totals


def node(operator="Conv", runs=1, least_ms=None, bound="", **cost):
    return NodeRow(
        0, "n", operator, "", (), (), 0, 0, cost=Cost(**cost), runs=runs, least_ms=least_ms, bound=bound
    )


def facts(analysis):
    return {fact.name: fact.value for fact in work.run_facts(analysis).facts}


def test_one_run_says_what_it_takes_and_why_a_time_is_not_known(analysis):
    run = msgspec.structs.replace(analysis.work, least_ms=None, least_reason="no peaks are known")
    shown = facts(msgspec.structs.replace(analysis, work=run))
    assert shown["Peak activations"] == "196 KiB (node n4)"
    assert shown["Least time"] == "unknown: no peaks are known"
    timed = msgspec.structs.replace(run, least_ms=0.25)
    assert facts(msgspec.structs.replace(analysis, work=timed))["Least time"].startswith("250 µs")


def test_a_model_without_figures_is_no_zero(analysis):
    nothing = msgspec.structs.replace(analysis, work=None)
    assert facts(nothing) == {"Operations": "unknown"}
    assert work.totals(nothing) == Totals()


@pytest.mark.parametrize(
    ("row", "operations", "share"),
    [
        (node(operations=250_000), "250 k", "25.0 %"),
        (node(operations=250_000, runs=2), "500 k", "50.0 %"),
        (node(operations=3), "3", "< 0.1 %"),
        (node(operations=0), "0", "0 %"),
        (node(unknown="its shape is not known"), "unknown", "unknown"),
        (node("Loop", operations=250_000), "in its nodes", ""),
        (node(operations=250_000, runs=0), "not counted", ""),
    ],
)
def test_the_operations_of_a_node(row, operations, share):
    assert work.operations_text(row) == operations
    assert work.share_text(row, work.operations_share(row, Totals(1_000_000))) == share


def test_the_share_of_the_least_time():
    row = node(operations=8, runs=3, least_ms=0.1)
    assert work.min_share(row, Totals(8, 0.6)) == pytest.approx(0.5)
    assert work.min_share(row, Totals(8)) is None
    assert work.min_share(node(), Totals(8, 0.6)) is None


def test_a_node_tells_its_work_its_bound_and_why_its_cost_is_not_known():
    timed = node(runs=2, operations=2000, read_bytes=1000, written_bytes=500, least_ms=0.012, bound="memory")
    shown = {fact.name: fact.value for fact in work.node_facts(timed)}
    assert shown["Work"] == "2.00 k operations, 1.5 KiB moved"
    assert shown["Least time"] == "12.0 µs, bound by memory"
    assert shown["Runs"] == "2 times in one run of the model"
    odd = {fact.name: fact.value for fact in work.node_facts(node(unknown="nobody knows it"))}
    assert odd["Work"] == "unknown: nobody knows it"


def test_categories_are_bars_of_the_time_or_else_of_the_operations(analysis):
    rows = (
        CategoryRow("shape", 2),
        CategoryRow("odd", 1, unknown=1),
        CategoryRow("convolution", 3, 900, 10),
        CategoryRow("pooling", 1, 4, 1),
    )
    run = msgspec.structs.replace(analysis.work, operations=1000, least_ms=None)
    counted = msgspec.structs.replace(analysis, categories=rows, work=run)
    assert [(bar.key, bar.text) for bar in work.category_bars(counted)] == [
        ("convolution", "90 %"),
        ("pooling", "< 1 %"),
        ("shape", ""),
        ("odd", "unknown"),
    ]
    assert "operations" in work.category_title(counted)
    timed = msgspec.structs.replace(
        counted,
        work=msgspec.structs.replace(run, least_ms=2.0),
        categories=tuple(msgspec.structs.replace(row, least_ms=0.5) for row in rows),
    )
    assert {bar.text for bar in work.category_bars(timed)} == {"25 %"}
    assert "least time" in work.category_title(timed)


def test_a_sum_that_lacks_some_nodes_says_so():
    assert work.operator_operations(CategoryRow("odd", 3, 1000, unknown=1)) == "≥ 1.00 k"


def test_a_device_that_was_not_measured_is_named_without_a_command(analysis):
    reason = "no peaks are known; measure them with: edgeopt probe --deep"
    run = msgspec.structs.replace(analysis.work, least_ms=None, least_reason=reason)
    unmeasured = msgspec.structs.replace(analysis, work=run)
    assert work.awaits_peaks(unmeasured)
    assert facts(unmeasured)["Least time"] == "unknown: the device has not been measured yet"
    known = msgspec.structs.replace(analysis, work=msgspec.structs.replace(run, least_ms=0.25))
    assert not work.awaits_peaks(known)
