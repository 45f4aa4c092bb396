"""From the sample to its graph, measured times, a search, a comparison and the table, by keyboard alone."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QApplication

from edgeopt_gui.widgets.palette import Palette

LONG_MS = 180_000


@pytest.fixture
def window(open_window, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    window = open_window()
    window.activateWindow()
    window.setFocus()
    return window


def shortcut(qtbot, window, key):
    combination = QKeySequence(window.book[key].action.shortcut)[0]
    qtbot.keyClick(window, combination.key(), combination.keyboardModifiers())


def by_name(qtbot, window, key):
    """Finds the action in the palette, as one does who knows no shortcut."""
    shortcut(qtbot, window, "app.palette")
    (palette,) = (each for each in window.findChildren(Palette) if each.isVisible())
    qtbot.keyClicks(palette.line, window.book[key].title)
    qtbot.keyClick(palette.line, Qt.Key.Key_Return)
    # As a desktop does once a popup is closed.
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)


def page_shown(window):
    return window.shown_page.objectName().removeprefix("page-")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_graph_leads_from_a_model_to_its_comparison_and_back(qtbot, window, context, half_weights):
    context.settings.keep("optimize.time-limit-s", 5)
    context.settings.keep("compare.time-limit-s", 1)
    by_name(qtbot, window, "app.open-sample")
    shortcut(qtbot, window, "app.go-graph")
    graph = window.page("graph")
    qtbot.waitUntil(lambda: graph.state == "content", timeout=LONG_MS)
    assert graph.view.colouring.key == "category"

    by_name(qtbot, window, "graph.measure")
    qtbot.waitUntil(lambda: graph.view.colouring.key.startswith("ms:"), timeout=LONG_MS)

    shortcut(qtbot, window, "app.go-optimize")
    shortcut(qtbot, window, "optimize.start")
    optimize = window.page("optimize")
    qtbot.waitUntil(lambda: not context.jobs.jobs and optimize.state == "content", timeout=LONG_MS)
    by_name(qtbot, window, "optimize.compare")
    assert page_shown(window) == "compare"
    compare = window.page("compare")
    qtbot.waitUntil(lambda: not context.jobs.jobs and compare.state == "content", timeout=LONG_MS)
    assert compare.view.accuracy.text().startswith(("Equal", "Different"))

    compare.put(1, half_weights)
    shortcut(qtbot, window, "compare.start")
    qtbot.waitUntil(lambda: not context.jobs.jobs and compare.state == "content", timeout=LONG_MS)
    layer = compare.view.layers.current
    by_name(qtbot, window, "compare.show-layer")
    assert page_shown(window) == "graph"
    qtbot.waitUntil(lambda: graph.view.title.text() == layer.node.partition(" ")[0], timeout=LONG_MS)

    graph.view.canvas.setFocus()
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Down)
    name = graph.view.facts.groups[0].facts[1].value
    shortcut(qtbot, window, "graph.in-table")
    assert page_shown(window) == "model"
    assert window.page("model").view.nodes.table.current.name == name
