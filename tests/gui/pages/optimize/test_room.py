"""The table of candidates beside the settings, in a window of a common size."""

from PySide6.QtWidgets import QApplication

from edgeopt.data.demo import DATA, MODEL
from edgeopt_gui.pages.optimize.board import Row
from edgeopt_gui.pages.optimize.candidates import COLUMNS
from edgeopt_gui.pages.optimize.choices import Choices
from edgeopt_gui.pages.optimize.page import ENTRY
from edgeopt_gui.pages.optimize.run import Order, Run
from edgeopt_gui.pages.optimize.words import short_name
from edgeopt_gui.subject import Subject


def test_intervals_are_readable_beside_open_settings(open_page, context, won, tmp_path):
    page = open_page(ENTRY)
    order = Order(MODEL, DATA, None, Choices("balanced"))
    run = Run(MODEL, tmp_path / "before.edgeopt", order.shown(), job=None, result=won, order=order)
    run.board.finish(won)
    for name in ("planned · openvino-cpu · threads=1", "source · openvino-cpu · precision=bf16 · threads=1"):
        run.board.rows[name] = Row(name, "lost", speedup=1.5, memory_bytes=70 << 20, size_bytes=90 << 10)
    page._runs[MODEL] = run
    context.open(Subject(MODEL, "model"))
    page.window().resize(1280, 800)
    page.settings.head.setChecked(True)
    QApplication.processEvents()
    table = page.view.candidates.table
    assert page.panel.isVisible()
    assert table.isVisible()
    titles = [column.title for column in COLUMNS]
    assert table.columnWidth(titles.index("Interval")) >= 250
    assert not table.horizontalScrollBar().isVisible()
    name = short_name("planned · openvino-cpu · threads=1")
    assert table.columnWidth(titles.index("Candidate")) >= table.fontMetrics().horizontalAdvance(name)
