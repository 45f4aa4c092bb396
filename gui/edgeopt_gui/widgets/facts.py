"""Facts in groups: name and value side by side, on demand where each comes from."""

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from edgeopt_gui.widgets.chips import Chips
from edgeopt_gui.widgets.fact import Fact, FactGroup
from edgeopt_gui.widgets.heading import heading, quiet


class FactsView(QWidget):
    copied = Signal(str)
    followed = Signal(str)
    """The link of a fact whose value was clicked."""

    def __init__(self, name_letters: int = 15) -> None:
        super().__init__()
        self._name_width = self.fontMetrics().averageCharWidth() * name_letters
        self._groups: tuple[FactGroup, ...] = ()
        self._sources: list[QLabel] = []
        self._sources_shown = False
        self._links: list[QLabel] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(self.fontMetrics().height())

    @property
    def groups(self) -> tuple[FactGroup, ...]:
        return self._groups

    def set_groups(self, groups: Sequence[FactGroup]) -> None:
        if self._groups == tuple(groups):
            return
        self._groups = tuple(groups)
        self._sources.clear()
        self._links.clear()
        while item := self._column.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        for group in groups:
            self._column.addWidget(self._group(group))
        self._column.addStretch()

    def show_sources(self, shown: bool) -> None:
        self._sources_shown = shown
        for label in self._sources:
            label.setVisible(shown)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        """Sets the texts of links again after a palette change, because a link keeps its colour."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            for label in self._links:
                text = label.text()
                label.clear()
                label.setText(text)

    def _group(self, group: FactGroup) -> QWidget:
        box = QWidget()
        grid = QGridLayout(box)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setVerticalSpacing(round(self.fontMetrics().height() * 0.3))
        grid.setHorizontalSpacing(self.fontMetrics().averageCharWidth() * 2)
        grid.setColumnMinimumWidth(0, self._name_width)
        grid.setColumnStretch(1, 1)
        if group.title:
            grid.addWidget(heading(group.title, 3), grid.rowCount(), 0, 1, 3)
        for fact in group.facts:
            self._add(grid, fact)
        return box

    def _add(self, grid: QGridLayout, fact: Fact) -> None:
        line = grid.rowCount()
        name = self._name(fact.name)
        if fact.words:
            name.setContentsMargins(0, Chips.INSET, 0, 0)
        value = Chips(fact.words) if fact.words else self._value(fact)
        value.setAccessibleName(f"{fact.name}: {', '.join(fact.words) or fact.value}")
        for widget in (name, value):
            origin = f"Source: {fact.source}" if fact.source else ""
            cut = fact.name if widget is name and name.text() != fact.name else ""
            widget.setToolTip("\n".join(part for part in (cut, origin) if part))
        # Beside a button, which is higher than a line of text, all are centred.
        upright = Qt.AlignmentFlag.AlignVCenter if fact.copy else Qt.AlignmentFlag.AlignTop
        grid.addWidget(name, line, 0, upright)
        grid.addWidget(value, line, 1, 1, 1 if fact.copy else 2, upright)
        if fact.copy:
            grid.addWidget(self._copy_button(fact), line, 2, upright)
        if fact.source:
            source = quiet(f"from {fact.source}")
            source.setVisible(self._sources_shown)
            self._sources.append(source)
            grid.addWidget(source, line + 1, 1, 1, 2)

    def _name(self, text: str) -> QLabel:
        """Returns a label that wraps between words; a long word, such as a tensor's name, is cut in its middle."""
        metrics = self.fontMetrics()
        middle = Qt.TextElideMode.ElideMiddle
        words = (metrics.elidedText(word, middle, self._name_width) for word in text.split(" "))
        name = quiet(" ".join(words))
        name.setAccessibleName(text)
        name.setFixedWidth(self._name_width)
        return name

    def _value(self, fact: Fact) -> QLabel:
        label = QLabel()
        label.setTextFormat(Qt.TextFormat.RichText if fact.link else Qt.TextFormat.PlainText)
        label.setText(f'<a href="#">{escape(fact.value)}</a>' if fact.link else fact.value)
        label.setWordWrap(True)
        if fact.link:
            self._links.append(label)
        label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextBrowserInteraction
            if fact.link
            else Qt.TextInteractionFlag.TextSelectableByMouse
        )
        label.linkActivated.connect(lambda _: self.followed.emit(fact.link))
        label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        return label

    def _copy_button(self, fact: Fact) -> QPushButton:
        button = QPushButton("Copy")
        button.setAccessibleName(f"Copy: {fact.name}")
        button.setToolTip(fact.copy)
        button.clicked.connect(lambda: self.copied.emit(fact.copy))
        return button
