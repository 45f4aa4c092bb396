import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QTabWidget

from edgeopt_gui.pages.model.content import ModelContent


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
