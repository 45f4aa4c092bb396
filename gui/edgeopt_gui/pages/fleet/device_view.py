"""The devices of a fleet: a table, filters, and the details of one."""

from collections.abc import Iterable, Mapping

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from edgeopt.fleet.devices import FleetDevice
from edgeopt.fleet.fleet_watch import FleetUpdate
from edgeopt_gui.pages.fleet.device_rows import AGE_COLUMN, COLUMNS, FILTERS, facts_of, labels_text, look
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.filter_bar import FilterBar
from edgeopt_gui.widgets.heading import quiet
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable
from edgeopt_gui.widgets.scrolled import Scrolled

_SIDE_LETTERS = 40
_AGES_EVERY_MS = 10_000


class DeviceView(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.rows: RecordsModel[FleetDevice] = RecordsModel(
            COLUMNS, lambda each: each.device, look, searched=_searched
        )
        self.table = RecordsTable(self.rows, "Devices of the fleet")
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.filter = FilterBar(self.rows, "Find devices by name, model, release or label", "devices")
        self.which = QComboBox()
        self.which.setAccessibleName("Devices to show")
        for title, _ in FILTERS:
            self.which.addItem(title)
        self.which.currentIndexChanged.connect(lambda place: self.rows.accept(FILTERS[place][1]))
        self.name = QLabel()
        self.name.setProperty("role", "heading")
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.facts = FactsView(name_letters=14)
        self.hint = quiet("Select a device to see its details. Shift and Ctrl select several, for a rollout.")
        self._sorted_once = False
        self.table.picked.connect(self._show_details)
        # Texts such as "2 minutes ago" change without a new report.
        self._ages = QTimer(self, interval=_AGES_EVERY_MS)
        self._ages.timeout.connect(self._touch_ages)
        self._lay_out()

    @property
    def selected(self) -> tuple[str, ...]:
        """The names of the selected devices."""
        rows = self.table.selectionModel().selectedRows()
        return tuple(self.rows.row(index.row()).device for index in sorted(rows, key=lambda each: each.row()))

    def show_devices(self, devices: Iterable[FleetDevice]) -> None:
        """Replaces all rows, sorted by the name of the device."""
        self.rows.set_rows(sorted(devices, key=lambda each: each.device))
        self.table.fit()
        self._show_details(self.table.current)

    def take(self, update: FleetUpdate, devices: Mapping[str, FleetDevice]) -> None:
        if not self.rows.rows:
            self.show_devices(devices.values())
        elif update.devices or update.removed_devices:
            self.rows.put_all(update.devices, update.removed_devices)
            self._show_details(self.table.current)

    def watch_ages(self, *, on: bool) -> None:
        if on:
            self._ages.start()
        else:
            self._ages.stop()

    def _touch_ages(self) -> None:
        self.rows.touch_column(AGE_COLUMN)
        self._show_details(self.table.current)

    def _show_details(self, device: FleetDevice | None) -> None:
        self.hint.setVisible(device is None)
        name = "" if device is None else device.device
        self.name.setToolTip(name)
        self.name.setAccessibleName(name)
        width = self.fontMetrics().averageCharWidth() * _SIDE_LETTERS
        self.name.setText(self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, width))
        self.facts.set_groups(() if device is None else facts_of(device))

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        head = QHBoxLayout()
        head.setSpacing(line // 2)
        head.addWidget(self.filter, 1)
        head.addWidget(self.which)
        inside = Scrolled()
        inside.column.setContentsMargins(line // 2, 0, line, 0)
        for widget in (self.name, self.hint, self.facts):
            inside.column.addWidget(widget)
        inside.column.addStretch()
        side = QScrollArea(widgetResizable=True)
        side.setFrameShape(QFrame.Shape.NoFrame)
        side.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        side.setAccessibleName("Details of the device")
        side.setMinimumWidth(self.fontMetrics().averageCharWidth() * _SIDE_LETTERS // 2)
        side.setWidget(inside)
        parts = QSplitter(Qt.Orientation.Horizontal, childrenCollapsible=False)
        parts.addWidget(self.table)
        parts.addWidget(side)
        parts.setStretchFactor(0, 3)
        parts.setStretchFactor(1, 1)
        wide = self.fontMetrics().averageCharWidth() * _SIDE_LETTERS
        parts.setSizes([wide * 3, wide])
        column = QVBoxLayout(self)
        column.setContentsMargins(0, line // 2, 0, 0)
        column.setSpacing(line // 2)
        column.addLayout(head)
        column.addWidget(parts, 1)


def _searched(device: FleetDevice) -> str:
    return "\n".join((device.device, device.name, device.release, labels_text(device), device.agent))
