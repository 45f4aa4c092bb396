"""What the page Device shows when the device is known."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QScrollArea, QWidget

from edgeopt.hw.device import Device
from edgeopt.hw.load import LoadSample
from edgeopt.profiles.targets import Verdict
from edgeopt_gui.pages.device import facts, readings, targets
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.gauge import Gauge
from edgeopt_gui.widgets.heading import heading, quiet
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable
from edgeopt_gui.widgets.scrolled import Scrolled

_LEFT_GROUPS = 2
"""System and CPU stand at the left, the others at the right."""


class DeviceContent(QScrollArea):
    copied = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAccessibleName("The device")
        self.headline, self.subline = heading(level=1), quiet()
        self.gauges = tuple(Gauge(name) for name in readings.NAMES)
        self.chosen, self.why = heading(level=3), quiet()
        self.targets = RecordsModel(targets.COLUMNS, key=lambda verdict: verdict.name, look=targets.look)
        self.table = RecordsTable(self.targets, "Other targets")
        self.left, self.right, self.absent = FactsView(), FactsView(), FactsView()
        self.absent.copied.connect(self.copied)
        self._absent_title = heading("Not here")
        self._others_title = heading("Other targets")
        self.setWidget(self._page())

    def show_device(self, device: Device) -> None:
        self.headline.setText(facts.headline(device)[0])
        self.subline.setText(facts.headline(device)[1])
        groups = facts.groups(device)
        self.left.set_groups(groups[:_LEFT_GROUPS])
        self.right.set_groups(groups[_LEFT_GROUPS:])
        absent = facts.absent(device)
        self.absent.set_groups((absent,))
        for widget in (self._absent_title, self.absent):
            widget.setVisible(bool(absent.facts))

    def show_targets(self, verdicts: tuple[Verdict, ...]) -> None:
        self._say(*targets.chosen_sentences(verdicts))
        self.targets.set_rows(targets.others(verdicts))
        self.table.fit()
        self.table.show_all_rows()
        for widget in (self._others_title, self.table):
            widget.setVisible(bool(self.targets.rows))

    def show_no_targets(self, what: str, next_step: str) -> None:
        self._say(what, next_step)
        self._others_title.hide()
        self.table.hide()

    def show_load(self, sample: LoadSample) -> None:
        for gauge, reading in zip(self.gauges, readings.readings(sample), strict=True):
            gauge.show_reading(reading)

    def show_sources(self, shown: bool) -> None:
        for view in (self.left, self.right):
            view.show_sources(shown)

    def _say(self, what: str, why: str) -> None:
        self.chosen.setText(what)
        self.why.setText(why)

    def _page(self) -> QWidget:
        page = Scrolled()
        column = page.column
        line = self.fontMetrics().height()
        column.setContentsMargins(line, line, line, line)
        column.setSpacing(line // 2)
        column.addWidget(self.headline)
        column.addWidget(self.subline)
        column.addSpacing(line // 2)
        column.addLayout(self._gauges())
        column.addSpacing(line)
        column.addWidget(heading("Target"))
        column.addWidget(self.chosen)
        column.addWidget(self.why)
        column.addSpacing(line)
        column.addWidget(heading("Facts"))
        column.addLayout(self._facts())
        column.addSpacing(line)
        column.addWidget(self._absent_title)
        column.addWidget(self.absent)
        column.addSpacing(line)
        column.addWidget(self._others_title)
        column.addWidget(self.table)
        column.addStretch()
        return page

    def _gauges(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(self.fontMetrics().height() * 2)
        for place, gauge in enumerate(self.gauges):
            grid.addWidget(gauge, 0, place)
            grid.setColumnStretch(place, 1)
        return grid

    def _facts(self) -> QHBoxLayout:
        sides = QHBoxLayout()
        sides.setSpacing(self.fontMetrics().height() * 2)
        for view in (self.left, self.right):
            sides.addWidget(view, 1)
        return sides
