import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QTabWidget

from edgeopt.graph.analysis import CoverageRow, NodeRow, Opportunity, TensorFacts
from edgeopt_gui.pages.model import findings
from edgeopt_gui.pages.model.content import ModelContent
from edgeopt_gui.pages.model.node_feed import AT_ONCE, NodeFeed
from edgeopt_gui.pages.model.nodes import Nodes
from edgeopt_gui.pages.model.operators import Operators
from edgeopt_gui.pages.model.work import Totals, totals
from tests.diagram.models import net


@pytest.fixture
def content(qtbot, analysis):
    made = ModelContent()
    qtbot.addWidget(made)
    made.resize(1200, 400)
    made.show_analysis(analysis)
    made.show_nodes(list(analysis.nodes))
    made.show()
    return made


def titles(content):
    tabs = content.findChild(QTabWidget)
    return [tabs.tabText(place) for place in range(tabs.count())]


def test_the_tabs_say_how_much_is_in_them(content, analysis):
    before = [
        "Nodes (95)",
        "Operators (16)",
        "Opportunities",
        "Runtimes",
        "Weights (49)",
        "Inputs and outputs (2)",
    ]
    assert titles(content) == before
    content.show_findings(analysis)
    opportunities, runtimes = len(analysis.opportunities), len(analysis.coverage)
    assert titles(content)[2:4] == [f"Opportunities ({opportunities})", f"Runtimes ({runtimes})"]
    content.show_analysis(msgspec.structs.replace(analysis, weights_count=1234))
    assert titles(content) == [*before[:4], "Weights (49 of 1,234)", before[5]]


def test_all_tabs_are_in_sight_in_a_small_window(content):
    content.resize(930, 400)
    tabs = content.findChild(QTabWidget)
    assert titles(content)[0] == "Nodes"
    assert tabs.tabBar().tabRect(tabs.count() - 1).right() <= tabs.width()


def test_the_last_tab_is_in_sight_in_a_window_that_is_smaller_still(content):
    content.resize(775, 400)
    tabs = content.findChild(QTabWidget)
    assert titles(content)[-1] == "I/O"
    assert tabs.tabBar().tabRect(tabs.count() - 1).right() <= tabs.width()


def test_all_columns_of_the_nodes_are_in_sight_in_a_small_window(content):
    content.resize(930, 400)
    table = content.nodes.table
    assert table.horizontalScrollBar().maximum() == 0
    assert table.columnWidth(3) >= table.fontMetrics().averageCharWidth() * 11


def test_columns_that_the_details_repeat_give_way_in_a_narrow_window(content):
    table = content.nodes.table
    titles = [column.title for column in table.records.columns]
    content.resize(760, 400)
    assert table.isColumnHidden(titles.index("Category"))
    assert table.columnViewportPosition(titles.index("Weights")) < table.viewport().width()
    content.resize(1200, 400)
    assert not table.isColumnHidden(titles.index("Category"))


def test_notes_stand_there_when_there_are_some(content, analysis):
    content.show_analysis(msgspec.structs.replace(analysis, warnings=("Two weights are the same.",)))
    assert content.notes.isVisible()
    assert content.notes.text() == "Two weights are the same."
    content.show_analysis(msgspec.structs.replace(analysis, warnings=()))
    assert not content.notes.isVisible()


def test_the_summary_scrolls_to_the_bar_under_the_cursor(qtbot, content):
    bar = next(area for area in content.findChildren(QScrollArea) if area.accessibleName() == "Summary")
    qtbot.waitUntil(lambda: bar.verticalScrollBar().maximum() > 0)
    qtbot.keyClick(content.operators, Qt.Key.Key_End)
    assert bar.verticalScrollBar().value() > 0


def test_choosing_a_bar_shows_its_nodes(content):
    tabs = content.findChild(QTabWidget)
    tabs.setCurrentIndex(1)
    content.operators.choose("Gemm")
    assert tabs.currentIndex() == 0
    assert [node.operator for node in content.nodes.records.shown] == ["Gemm"]
    content.categories.choose("convolution")
    assert content.operators.choice == ""
    assert {node.operator for node in content.nodes.records.shown} == {"Conv"}
    content.nodes.all.click()
    assert content.categories.choice == ""
    assert content.nodes.records.rowCount() == 79


def test_enter_on_an_operator_shows_its_nodes(content):
    content.findChild(QTabWidget).setCurrentWidget(content.operators_table)
    content.operators_table.table.chosen.emit(
        next(r for r in content.operators_table.records.rows if r.count == 9)
    )
    assert {node.operator for node in content.nodes.records.shown} == {content.operators.choice}
    assert content.nodes.isVisible()


def bold(content):
    font = Qt.ItemDataRole.FontRole
    records = content.nodes.records
    return [row.name for place, row in enumerate(records.shown) if records.index(place, 0).data(font)]


def test_an_opportunity_marks_its_nodes_and_shows_them(content, analysis):
    tabs = content.findChild(QTabWidget)
    content.show_findings(analysis)
    assert bold(content) == []
    tabs.setCurrentWidget(content.opportunities)
    norms = next(each for each in analysis.opportunities if each.title.startswith("Batch normalizations"))
    content.opportunities.table.pick((norms.kind, norms.title, norms.reason))
    assert len(bold(content)) == len(norms.nodes) == 9
    assert norms.title in content.nodes.marks.text()
    content.opportunities.nodes.click()
    assert content.nodes.isVisible()
    assert {node.operator for node in content.nodes.records.shown} == {"BatchNormalization"}


def test_what_comes_later_leaves_filters_and_places_alone(content, analysis):
    tabs = content.findChild(QTabWidget)
    tabs.setCurrentWidget(content.runtimes)
    content.operators.choose("Conv")
    tabs.setCurrentWidget(content.runtimes)
    content.nodes.bar.line.setText("conv2d_3")
    content.show_findings(msgspec.structs.replace(analysis, operators=analysis.operators[:8]))
    content.show_nodes(list(analysis.nodes))
    assert content.operators.choice == "Conv"
    assert [node.name for node in content.nodes.records.shown] == ["node_conv2d_3"]
    assert content.runtimes.isVisible()
    assert len(content.runtimes.records.rows) == len(analysis.coverage)


def test_another_model_has_no_opportunities_of_the_last_one(content, analysis):
    content.show_findings(analysis)
    content.findChild(QTabWidget).setCurrentWidget(content.opportunities)
    assert bold(content)
    content.show_analysis(analysis)
    content.say("Trying the passes…")
    content.show_nodes(list(analysis.nodes))
    assert content.opportunities.records.rows == ()
    assert content.opportunities.sentence.text() == "Trying the passes…"
    assert bold(content) == []


def test_a_device_that_was_not_measured_can_be_measured_here(content, analysis):
    reason = "no peaks are known; measure them with: edgeopt probe --deep"
    run = msgspec.structs.replace(analysis.work, least_ms=None, least_reason=reason)
    content.show_analysis(msgspec.structs.replace(analysis, work=run))
    assert content.measure.key == "app.measure-device"
    assert content.measure.isVisibleTo(content)
    timed = msgspec.structs.replace(run, least_ms=0.25)
    content.show_analysis(msgspec.structs.replace(analysis, work=timed))
    assert not content.measure.isVisibleTo(content)


def facts(groups):
    return {fact.name: fact.value for group in groups for fact in group.facts}


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.124, "≤ 12 %"), (0.01, "≤ 1 %"), (0.004, "< 1 %"), (0.0, "< 1 %"), (None, "no estimate")],
)
def test_a_gain_is_a_bound_and_none_is_told(share, text):
    assert findings.gain_text(Opportunity("layout", "t", "r", gain_share=share)) == text


def test_every_opportunity_of_the_sample_finds_its_nodes(analysis):
    named = [each for each in analysis.opportunities if each.nodes]
    assert len(named) > 3
    for each in named:
        names = findings.names_of(each)
        assert [node for node in analysis.nodes if findings.is_named(node, names)], each.title


def test_the_command_is_the_one_that_was_told(analysis):
    for each in analysis.opportunities:
        assert findings.command_of(each).line == each.command
    assert findings.command_of(Opportunity("layout", "t", "r")) is None


def test_a_node_is_known_by_its_name_its_first_output_and_its_place():
    def row(name, inside=""):
        return NodeRow(0, name, "Conv", "", (), (TensorFacts("y"),), 0, 0, inside)

    assert findings.is_named(row("c"), frozenset({"c"}))
    assert findings.is_named(row(""), frozenset({"y"}))
    assert findings.is_named(row("c", "if/then"), frozenset({"if/then/c"}))
    assert not findings.is_named(row("c"), frozenset({"y", ""}))


def test_why_it_could_gain_and_what_that_stands_on():
    many = tuple(f"n{k}" for k in range(30))
    shown = facts(findings.opportunity_facts(Opportunity("k", "t", "Why.", many, None, "no peaks", exact=False)))
    assert shown["Why"] == "Why."
    assert shown["Estimate"] == "no peaks"
    assert shown["Results"].startswith("change")
    assert shown["Nodes"].endswith("n11, and 18 more")


def test_a_runtime_that_runs_all_some_or_nothing():
    whole = CoverageRow("a", "A", "1.0", 83, 83, (), 0)
    partly = CoverageRow("b", "B", "1.0", 80, 83, ("Odd: o",), 2, "they run on the processor instead")
    broken = CoverageRow("c", "C", reason="it does not load it")
    assert findings.rest_text(whole) == "nothing"
    assert facts(findings.coverage_facts(whole))["Boundaries"] == "none: data stays where it is"
    shown = facts(findings.coverage_facts(partly))
    assert shown["Runs"].startswith("80 of 83 nodes")
    assert (shown["Not its own"], shown["Why"]) == ("Odd: o", "they run on the processor instead")
    assert shown["Boundaries"] == "data changes place 2 times in one run"
    shown = facts(findings.coverage_facts(broken))
    assert (shown["Runs"], shown["Boundaries"], shown["Why"]) == ("unknown", "unknown", "it does not load it")
    assert findings.rest_text(CoverageRow("d", "D")) == "unknown"


DIAMOND = net(
    ("a", "A", "x", "t"), ("b", "B", "t w", "l"), ("c", "C", "t", "r"), ("d", "D", "l r", "y"), gives="y"
)


def test_a_click_on_a_tensor_goes_to_the_node_that_makes_it(qtbot, analysis):
    nodes = Nodes()
    qtbot.addWidget(nodes)
    nodes.set_nodes(analysis.nodes, totals(analysis))
    gemm = next(node for node in analysis.nodes if node.operator == "Gemm")
    nodes.pick(gemm.position)
    fact = next(fact for fact in nodes.details.groups[0].facts if fact.name == "Input" and fact.link)
    nodes.details.followed.emit(fact.link)
    made = nodes.table.current
    assert gemm.inputs[0].name in {tensor.name for tensor in made.outputs}


def test_a_tensor_that_several_nodes_read_lists_them(qtbot):
    nodes = Nodes()
    qtbot.addWidget(nodes)
    nodes.set_nodes(DIAMOND[0], Totals())
    nodes.follow("read by t")
    assert [node.name for node in nodes.records.shown] == ["b", "c"]
    assert nodes.all.text() == "Only read by t: show all"


def plain(count):
    rows = [NodeRow(k, f"n{k}", "Relu", "", (TensorFacts("x"),), (TensorFacts("y"),), 0, 0) for k in range(count)]
    return msgspec.to_builtins(rows)


@pytest.fixture
def feed(qapp):
    return NodeFeed()


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, 2 * AT_ONCE + 1])
def test_all_nodes_arrive_in_their_order(qtbot, feed, count):
    with qtbot.waitSignal(feed.ready) as ready:
        feed.start(plain(count))
    assert [node.position for node in ready.args[0]] == list(range(count))


def test_another_model_takes_the_place_of_the_one_under_way(qtbot, feed):
    told = []
    feed.ready.connect(lambda rows: told.append(len(rows)))
    feed.start(plain(5 * AT_ONCE))
    feed.start(plain(3))
    qtbot.waitUntil(lambda: told == [3])


def test_stopped_is_stopped(qtbot, feed):
    feed.start(plain(3))
    feed.stop()
    with qtbot.assertNotEmitted(feed.ready, wait=50):
        pass


def test_shows_the_share_that_is_known(qtbot, analysis):
    tab = Operators()
    qtbot.addWidget(tab)
    titles = [column.title for column in tab.records.columns]
    tab.set_rows(analysis.operators, totals(analysis))
    assert tab.records.rowCount() == 16
    assert tab.table.isColumnHidden(titles.index("Time %"))
    tab.set_rows(analysis.operators, Totals(1000, 2.0))
    assert not tab.table.isColumnHidden(titles.index("Time %"))
    assert tab.table.isColumnHidden(titles.index("Work %"))


def test_operators_with_the_most_work_come_first(qtbot, analysis):
    tab = Operators()
    qtbot.addWidget(tab)
    tab.set_rows(analysis.operators, totals(analysis))
    assert tab.records.shown[0].operator == "Conv"
    work = [row.operations for row in tab.records.shown if row.unknown < row.count]
    assert work == sorted(work, reverse=True)


def test_the_summary_is_a_tab_in_a_narrow_window_and_a_column_in_a_wide_one(content):
    summary = content.facts
    content.resize(640, 400)
    assert titles(content)[:2] == ["Summary", "Nodes"]
    assert content.nodes.isVisible()
    tabs = content.findChild(QTabWidget)
    assert tabs.tabBar().tabRect(tabs.count() - 1).right() <= tabs.width()
    tabs.setCurrentIndex(0)
    assert summary.isVisible()
    content.begin_search()
    assert content.nodes.isVisible()
    content.resize(1200, 400)
    assert titles(content)[0] == "Nodes (95)"
    assert summary.isVisible()
    assert content.nodes.isVisible()
