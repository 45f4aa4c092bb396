"""The content of the page Device once the device is known."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QScrollArea, QWidget

from edgeopt.hw.device import Device
from edgeopt.hw.load import LoadSample
from edgeopt.profiles.targets import TargetVerdict
from edgeopt_gui.pages.device import facts, readings, targets
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.fold import Fold
from edgeopt_gui.widgets.gauge import Gauge
from edgeopt_gui.widgets.heading import heading, quiet
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable
from edgeopt_gui.widgets.scrolled import Scrolled

_NO_PEAKS = (
    "The device has not been measured yet, so the least time of a model is unknown. "
    "Measuring takes about ten seconds."
)
_LEFT_GROUPS = 2
"""System and CPU are on the left, the others on the right."""


class DeviceContent(QScrollArea):
    copied = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAccessibleName("The device")
        self.headline, self.subline = heading(level=1), quiet()
        self.gauges = tuple(Gauge(name) for name in readings.NAMES)
        self.no_gauge = quiet()
        self.no_gauge.hide()
        self._sampled = False
        self.no_peaks = quiet(_NO_PEAKS)
        self.measure = ActionButton("app.measure-device")
        self.chosen, self.why = heading(level=3), quiet()
        self.targets = RecordsModel(targets.COLUMNS, key=lambda verdict: verdict.name, look=targets.look)
        self.table = RecordsTable(self.targets, "Other targets")
        self.foreign = RecordsModel(targets.COLUMNS, key=lambda verdict: verdict.name, look=targets.look)
        self.foreign_table = RecordsTable(self.foreign, "Targets of other systems")
        self.fold = Fold("Targets of other systems", self.foreign_table)
        self.left, self.right, self.absent = FactsView(), FactsView(), FactsView()
        self.absent.copied.connect(self.copied)
        self._absent_title = heading("Not available")
        self._others_title = heading("Other targets")
        self.setWidget(self._page())

    def show_device(self, device: Device, read_s: float | None = None) -> None:
        """Shows the device; `read_s` is the time at which it was read."""
        self.headline.setText(facts.headline(device)[0])
        self.subline.setText(facts.headline(device)[1])
        groups = facts.groups(device, read_s)
        self.no_peaks.setVisible(not device.peaks)
        self.left.set_groups(groups[:_LEFT_GROUPS])
        self.right.set_groups(groups[_LEFT_GROUPS:])
        absent = facts.absent(device)
        self.absent.set_groups((absent,))
        for widget in (self._absent_title, self.absent):
            widget.setVisible(bool(absent.facts))

    def show_targets(self, verdicts: tuple[TargetVerdict, ...]) -> None:
        self._say(*targets.chosen_sentences(verdicts))
        self.targets.set_rows(targets.others(verdicts))
        self.foreign.set_rows(targets.of_other_systems(verdicts))
        for table in (self.table, self.foreign_table):
            table.fit()
            table.show_all_rows()
        self.fold.head.setText(f"Targets of other systems ({len(self.foreign.rows)})")
        self._others_title.setVisible(bool(self.targets.rows or self.foreign.rows))
        self.table.setVisible(bool(self.targets.rows))
        self.fold.setVisible(bool(self.foreign.rows))

    def show_no_targets(self, what: str, next_step: str) -> None:
        self._say(what, next_step)
        for widget in (self._others_title, self.table, self.fold):
            widget.hide()

    def show_load(self, sample: LoadSample) -> None:
        """Shows a gauge for each known value, and the reasons for unknown ones in the line below."""
        found = readings.readings(sample)
        first, self._sampled = not self._sampled, True
        if first and found[0].value is None:
            found = found[1:]  # load is a difference: there is none before the second sample
        for place, reading in enumerate(found, len(self.gauges) - len(found)):
            self.gauges[place].show_reading(reading)
            self.gauges[place].setVisible(reading.value is not None)
            self._gauge_grid.setColumnStretch(place, int(reading.value is not None))
        self.no_gauge.setText(readings.not_known(found))
        self.no_gauge.setVisible(bool(self.no_gauge.text()))

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
        column.addWidget(self.no_gauge)
        column.addSpacing(line)
        column.addWidget(heading("Target"))
        column.addWidget(self.chosen)
        column.addWidget(self.why)
        column.addSpacing(line)
        column.addWidget(heading("Facts"))
        column.addLayout(self._facts())
        column.addSpacing(line // 2)
        column.addLayout(self._peaks())
        column.addSpacing(line)
        column.addWidget(self._absent_title)
        column.addWidget(self.absent)
        column.addSpacing(line)
        column.addWidget(self._others_title)
        column.addWidget(self.table)
        column.addWidget(self.fold)
        column.addStretch()
        return page

    def _gauges(self) -> QGridLayout:
        grid = self._gauge_grid = QGridLayout()
        grid.setHorizontalSpacing(self.fontMetrics().height() * 2)
        for place, gauge in enumerate(self.gauges):
            grid.addWidget(gauge, 0, place)
            grid.setColumnStretch(place, 1)
        return grid

    def _peaks(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(self.fontMetrics().height())
        row.addWidget(self.measure)
        row.addWidget(self.no_peaks, 1)
        row.addStretch()
        return row

    def _facts(self) -> QHBoxLayout:
        sides = QHBoxLayout()
        sides.setSpacing(self.fontMetrics().height() * 2)
        for view in (self.left, self.right):
            sides.addWidget(view, 1)
        return sides
