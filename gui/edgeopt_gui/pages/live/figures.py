"""The figures beside the charts: percentiles in large digits, the rest below."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from edgeopt_gui.pages.live.readouts import NOTHING, Readout
from edgeopt_gui.widgets.heading import keep_room

_LARGE = 1.9


class Figures(QWidget):
    """Rows are made once a name; afterwards only texts change, so that nothing moves."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Figures")
        self._grid = QGridLayout(self)
        line = self.fontMetrics().height()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(line // 2)
        self._grid.setVerticalSpacing(line // 3)
        self._grid.setColumnStretch(1, 1)
        self._rows: dict[str, _Row] = {}
        self._comparison = QLabel(wordWrap=True)
        self._comparison.setProperty("role", "muted")
        self._comparison.setFixedHeight(self.fontMetrics().lineSpacing() * 2)
        self._comparison.setAlignment(Qt.AlignmentFlag.AlignTop)
        keep_room(self._comparison)
        self._comparison.hide()
        self._grid.addWidget(self._comparison, 100, 0, 1, 3)

    def show_readouts(self, readouts: Sequence[Readout], comparison: str) -> None:
        for readout in readouts:
            row = self._rows.get(readout.name)
            if row is None:
                row = self._rows[readout.name] = _Row(self, self._grid, len(self._rows), readout)
            row.show(readout)
        names = {readout.name for readout in readouts}
        for name, row in self._rows.items():
            if name not in names:
                row.show(Readout(name, NOTHING))
        if comparison != self._comparison.text():
            self._comparison.setText(comparison)
            self._comparison.setVisible(bool(comparison))

    def text_of(self, name: str) -> str:
        """Returns the value beside a name."""
        return self._rows[name].text


class _Row:
    def __init__(self, parent: QWidget, grid: QGridLayout, place: int, first: Readout) -> None:
        self._name, self._value, self._unit, self._note = (QLabel(parent) for _ in range(4))
        self._name.setText(first.name)
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBaseline
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBaseline
        self._value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for label in (self._name, self._unit, self._note):
            label.setProperty("role", "muted")
        if first.large:
            font = QFont(self._value.font())
            font.setPointSizeF(font.pointSizeF() * _LARGE)
            self._value.setFont(font)
        self._note.setWordWrap(True)
        if not first.large or first.note:
            keep_room(self._note)
        grid.addWidget(self._name, 2 * place, 0, left)
        grid.addWidget(self._value, 2 * place, 1, 1, 1 if first.unit else 2, right)
        if first.unit:
            grid.addWidget(self._unit, 2 * place, 2, left)
        grid.addWidget(self._note, 2 * place + 1, 0, 1, 3)

    @property
    def text(self) -> str:
        return self._value.text()

    def show(self, readout: Readout) -> None:
        for label, text in ((self._value, readout.value), (self._unit, readout.unit), (self._note, readout.note)):
            if label.text() != text:
                label.setText(text)
        self._unit.setVisible(bool(readout.unit))
        self._note.setVisible(bool(readout.note))
        self._value.setAccessibleName(f"{readout.name}: {readout.value} {readout.unit}".strip())
