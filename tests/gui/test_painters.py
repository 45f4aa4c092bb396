"""Painters end, whatever happens while they draw: Qt complains about a widget whose painter is still at work."""

import ast
from pathlib import Path

import pytest

import edgeopt_gui
from edgeopt_gui.plots.histogram import Histogram


def test_every_painter_ends_with_its_block():
    loose = []
    for file in Path(edgeopt_gui.__file__).parent.rglob("*.py"):
        tree = ast.parse(file.read_text())
        held = {item.context_expr for n in ast.walk(tree) if isinstance(n, ast.With) for item in n.items}
        loose += [
            f"{file.name}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "QPainter"
            and node not in held
        ]
    assert loose == []


def test_a_drawing_that_fails_leaves_no_painter_at_work(qtbot, context, monkeypatch, no_qt_warnings):
    histogram = Histogram()
    qtbot.addWidget(histogram)
    with qtbot.waitExposed(histogram):
        histogram.show()

    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(histogram, "_counts", [1])
    monkeypatch.setattr(histogram, "_paint_ticks", fail)
    with pytest.raises(ZeroDivisionError):
        histogram.repaint()
    assert no_qt_warnings == []
