"""The rollouts of a fleet: one of them with its waves and devices."""

import time
from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QStackedLayout, QVBoxLayout, QWidget

from edgeopt.errors import printable
from edgeopt.fleet.rollout_commands import RolloutDevice, RolloutReport
from edgeopt.fleet.rollout_documents import STATES
from edgeopt.views.rollout import state_text
from edgeopt_gui.pages.fleet.wave_bars import WaveBars
from edgeopt_gui.pages.fleet.waves import group_of, headline, waves_of
from edgeopt_gui.plots.ticks import clock_text
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.filter_bar import FilterBar
from edgeopt_gui.widgets.heading import heading, quiet
from edgeopt_gui.widgets.records import Column, Look, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

_LETTERS = 30
COLUMNS: tuple[Column[RolloutDevice], ...] = (
    Column("Device", lambda each: each.device, tip=lambda each: each.device, cut_middle=True, firm_letters=16),
    Column("Wave", lambda each: each.wave),
    Column("State", lambda each: (STATES.index(each.state), each.stage), state_text, min_letters=16),
    Column(
        "Since",
        lambda each: each.since_s or None,
        lambda each: clock_text(each.since_s) if each.since_s else "",
        tip=lambda each: time.ctime(each.since_s) if each.since_s else "",
    ),
    Column(
        "Reason",
        lambda each: printable(each.reason),
        tip=lambda each: printable(each.reason),
        stretch=True,
        max_letters=90,
    ),
)


class RolloutView(QWidget):
    chosen = Signal(str)
    """The name of the rollout that is to be shown."""

    def __init__(self) -> None:
        super().__init__()
        self.choice = QComboBox()
        self.choice.setAccessibleName("Rollout")
        self.choice.setMinimumContentsLength(_LETTERS)
        self.choice.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.choice.activated.connect(lambda _: self.chosen.emit(str(self.choice.currentData())))
        self.headline, self.reason, self.owner = heading(), QLabel(wordWrap=True), quiet()
        self.reason.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.bars = WaveBars()
        self.rows: RecordsModel[RolloutDevice] = RecordsModel(COLUMNS, lambda each: each.device, _look)
        self.rows.search("")
        self.table = RecordsTable(self.rows, "Devices of the rollout")
        self.filter = FilterBar(self.rows, "Find devices of the rollout", "devices")
        self.report: RolloutReport | None = None
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self._nothing())
        self._stack.addWidget(self._something())

    def show_rollouts(self, rollouts: Mapping[str, RolloutReport], shown: str) -> None:
        """Lists the rollouts, newest first; rebuilt only after a change, as the list may be open."""
        titles = [
            (f"{name}: {each.phase.replace('-', ' ')}", name) for name, each in reversed(tuple(rollouts.items()))
        ]
        before = [(self.choice.itemText(k), self.choice.itemData(k)) for k in range(self.choice.count())]
        if titles != before:
            self.choice.clear()
            for title, name in titles:
                self.choice.addItem(title, name)
                self.choice.setItemData(self.choice.count() - 1, title, Qt.ItemDataRole.ToolTipRole)
        place = self.choice.findData(shown)
        if place != self.choice.currentIndex():
            self.choice.setCurrentIndex(place)
        self.choice.setToolTip(self.choice.currentText())
        self._stack.setCurrentIndex(1 if rollouts else 0)

    def show_report(self, report: RolloutReport | None, owner: str) -> None:
        """Shows a rollout; `owner` is a sentence about who runs it."""
        before, self.report = self.report, report
        self.owner.setText(owner)
        self.owner.setVisible(bool(owner))
        if report is None or report == before:
            return
        self.headline.setText(headline(report))
        self.reason.setText(printable(report.reason))
        self.reason.setVisible(bool(report.reason))
        role = "problem" if report.phase == "stopped" else "muted"
        if self.reason.property("role") != role:
            self.reason.setProperty("role", role)
            self.reason.style().unpolish(self.reason)
            self.reason.style().polish(self.reason)
        self.bars.set_waves(waves_of(report))
        self._show_devices(report, before)

    def _show_devices(self, report: RolloutReport, before: RolloutReport | None) -> None:
        if before is None or before.name != report.name:
            self.rows.set_rows(report.devices)
            self.table.fit()
            return
        known = {each.device: each for each in before.devices}
        now = {each.device: each for each in report.devices}
        changed = [each for name, each in now.items() if each != known.get(name)]
        self.rows.put_all(changed, known.keys() - now.keys())

    def _nothing(self) -> QWidget:
        page = QWidget()
        sentence = QLabel(
            "No rollout yet. One deploys a bundle to many devices in waves, and stops when too many fail."
        )
        sentence.setWordWrap(True)
        sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        column = QVBoxLayout(page)
        column.addStretch()
        column.addWidget(sentence)
        column.addWidget(ActionButton("fleet.start"), 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch()
        return page

    def _something(self) -> QWidget:
        page, line = QWidget(), self.fontMetrics().height()
        head = QHBoxLayout()
        head.setSpacing(line // 2)
        head.addWidget(self.choice, 1)
        for key, text in (
            ("fleet.pause", "Pause…"),
            ("fleet.resume", ""),
            ("fleet.cancel", "Cancel…"),
            ("fleet.rollback", "Roll back…"),
        ):
            head.addWidget(ActionButton(key, text=text))
        column = QVBoxLayout(page)
        column.setContentsMargins(0, line // 2, 0, 0)
        column.setSpacing(line // 3)
        column.addLayout(head)
        for widget in (self.headline, self.reason, self.owner, self.bars, self.filter):
            column.addWidget(widget)
        column.addWidget(self.table, 1)
        return page


def _look(device: RolloutDevice) -> Look:
    group = group_of(device).key
    return "strong" if group == "failed" else "quiet" if group in {"waiting", "left"} else "plain"
