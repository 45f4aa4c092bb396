"""Titles and fields in two columns, as narrow as the panel; rows can be hidden, and a field can have a unit."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QGridLayout, QLabel, QWidget

from edgeopt_gui.pages.optimize.texts import quiet


class Rows(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._titles: dict[QWidget, QLabel] = {}
        self._units: dict[QWidget, QLabel] = {}
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        height = self.fontMetrics().height()
        self._grid.setHorizontalSpacing(height // 2)
        self._grid.setVerticalSpacing(height // 3)
        self._grid.setColumnStretch(1, 1)

    def add(self, title: str, field: QWidget, name: str = "", unit: str = "") -> None:
        """`name` is what a screen reader says, where the title alone would be too short."""
        row, label = self._grid.rowCount(), QLabel(title)
        label.setBuddy(field)
        field.setAccessibleName(name or title)
        self._titles[field] = label
        self._grid.addWidget(label, row, 0)
        if not unit:
            self._grid.addWidget(field, row, 1, 1, 2)
            return
        self._units[field] = quiet(QLabel(unit))
        self._grid.addWidget(field, row, 1)
        self._grid.addWidget(self._units[field], row, 2, Qt.AlignmentFlag.AlignLeft)

    def call(self, field: QWidget, title: str) -> None:
        self._titles[field].setText(title)

    def show_row(self, field: QWidget, on: bool) -> None:
        for widget in (field, self._titles[field], self._units.get(field)):
            if widget is not None:
                widget.setVisible(on)


def narrow_combo() -> QComboBox:
    """Returns a combo box that uses the available width, so that a long title does not widen the panel."""
    box = QComboBox()
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    return box
