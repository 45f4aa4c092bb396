"""The command palette: every action of the app, found by typing."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QKeyEvent, QKeySequence, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QLabel,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from edgeopt_gui.actions.book import ActionBook, Bound
from edgeopt_gui.actions.matching import best
from edgeopt_gui.theme.icons import icon

Index = QModelIndex | QPersistentModelIndex
CHOICE_ROLE = Qt.ItemDataRole.UserRole
_ROWS_SHOWN = 11
_LETTERS_WIDE = 76
_SHADOW = 14
"""Width of the shadow in pixels."""
_SHADE = 9
"""Opacity of each of the layers of the shadow, of 255."""


@dataclass(frozen=True, slots=True)
class Choice:
    bound: Bound
    reason: str
    """The reason why the action is not possible now; "" if it is."""

    @property
    def title(self) -> str:
        return self.bound.title

    @property
    def searched(self) -> str:
        action = self.bound.action
        return f"{self.title} {action.menu} {action.title if action.title != self.title else ''} {action.also}"

    @property
    def shortcut(self) -> str:
        return self.bound.shown.shortcut().toString(QKeySequence.SequenceFormat.NativeText)

    @property
    def aside(self) -> str:
        return self.reason or self.bound.action.menu


class ChoiceModel(QAbstractListModel):
    def __init__(self, choices: list[Choice], parent: QWidget) -> None:
        super().__init__(parent)
        # Possible actions come first, each group in the order of the menus.
        self._all = sorted(choices, key=lambda choice: bool(choice.reason))
        self._shown = self._all

    def search(self, typed: str) -> None:
        self.beginResetModel()
        self._shown = best(typed, self._all, lambda choice: choice.searched)
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:  # noqa: N802 - Qt's name
        return 0 if parent is not None and parent.isValid() else len(self._shown)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401 - Qt's signature
        if not index.isValid() or index.row() >= len(self._shown):
            return None
        choice = self._shown[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return choice.title
            case Qt.ItemDataRole.ToolTipRole:
                return choice.reason or None
            case Qt.ItemDataRole.AccessibleTextRole:
                return " · ".join(part for part in (choice.title, choice.aside, choice.shortcut) if part)
            case _ if role == CHOICE_ROLE:
                return choice
        return None


class Palette(QDialog):
    def __init__(self, book: ActionBook, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("palette")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAccessibleName("Find an action")
        self.line = QLineEdit(placeholderText="What do you want to do?")
        self.line.setAccessibleName("Find an action")
        self.model = ChoiceModel(
            [Choice(bound, bound.why_not()) for bound in book if bound.action.key != "app.palette"], self
        )
        self.view = QListView(uniformItemSizes=True)
        self.view.setAccessibleName("Actions")
        self.view.setModel(self.model)
        self.view.setItemDelegate(_Delegate(self.view))
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the line keeps it; arrows are handed on
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.clicked.connect(lambda _: self.run())
        em = self.fontMetrics().height()
        self.nothing = QLabel("No action matches.")
        self.nothing.setProperty("role", "muted")
        self.nothing.setContentsMargins(em // 2, em // 2, em // 2, em // 2)
        self.nothing.hide()
        # The margin around the frame is for the shadow.
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
        self.frame = QFrame()
        self.frame.setObjectName("palette-frame")
        around = QVBoxLayout(self)
        around.setContentsMargins(_SHADOW, _SHADOW, _SHADOW, _SHADOW)
        around.addWidget(self.frame)
        self._column = column = QVBoxLayout(self.frame)
        column.addWidget(self.line)
        column.addWidget(self.nothing)
        column.addWidget(self.view, 1)
        column.addStretch()
        self.line.textChanged.connect(self._search)
        self.line.setFocus()
        self._select(0)
        natural_width = max(
            self.fontMetrics().averageCharWidth() * _LETTERS_WIDE, self.view.sizeHintForColumn(0) + self._edges()
        )
        width = min(natural_width, parent.width() - 40)
        height = self.view.sizeHintForRow(0) * _ROWS_SHOWN + self.line.sizeHint().height() * 2 + 2 * _SHADOW
        self.resize(width, min(height, parent.height() - 80))
        self.move(
            parent.mapToGlobal(parent.rect().center()).x() - width // 2,
            parent.mapToGlobal(parent.rect().topLeft()).y() + parent.height() // 8,
        )

    def _edges(self) -> int:
        """Returns the part of the width that the rows of the list do not use."""
        margins = self._column.contentsMargins()
        bar = self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent)
        return margins.left() + margins.right() + bar + 2 * (self.view.frameWidth() + _SHADOW + 1)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Paints the shadow, which not every desktop gives to a popup."""
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(0, 0, 0, _SHADE))
            for width in range(2, _SHADOW, 2):
                box = self.frame.geometry().adjusted(-width, 2 - width, width, min(width + 2, _SHADOW))
                painter.drawRoundedRect(box, width, width)

    @property
    def current(self) -> Choice | None:
        choice = self.view.currentIndex().data(CHOICE_ROLE)
        return choice if isinstance(choice, Choice) else None

    def run(self) -> None:
        """Does what is marked; what cannot be done stays, with its reason beside it."""
        choice = self.current
        if choice is None or choice.reason:
            return
        self.close()
        choice.bound.shown.trigger()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        steps = {
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_PageDown: _ROWS_SHOWN - 1,
            Qt.Key.Key_PageUp: 1 - _ROWS_SHOWN,
        }
        key = Qt.Key(event.key())
        if key in steps:
            self._select(self.view.currentIndex().row() + steps[key])
        elif key in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.run()
        elif key == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def _search(self, typed: str) -> None:
        self.model.search(typed)
        found = self.model.rowCount() > 0
        self.view.setVisible(found)
        self.nothing.setVisible(not found)
        self._select(0)

    def _select(self, row: int) -> None:
        last = self.model.rowCount() - 1
        if last >= 0:
            self.view.setCurrentIndex(self.model.index(min(max(row, 0), last)))


class _Delegate(QStyledItemDelegate):
    """Icon, title, then menu or reason, and the shortcut at the right."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 - Qt's name
        choice: Choice = index.data(CHOICE_ROLE)
        texts = (choice.title, choice.aside, choice.shortcut)
        em = option.fontMetrics.height()
        # The gaps of `paint`, and one pixel of rounding for each text.
        width = 5 * em + sum(option.fontMetrics.horizontalAdvance(text) + 1 for text in texts)
        return QSize(width, em * 2)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        choice: Choice = index.data(CHOICE_ROLE)
        style = option.widget.style()
        style.drawPrimitive(QStyle.PrimitiveElement.PE_PanelItemViewItem, option, painter, option.widget)
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        if chosen:
            painter.fillRect(option.rect, option.palette.highlight())
        role = QPalette.ColorRole.HighlightedText if chosen else QPalette.ColorRole.Text
        quiet = QPalette.ColorRole.HighlightedText if chosen else QPalette.ColorRole.PlaceholderText
        em = option.fontMetrics.height()
        area = option.rect.adjusted(em // 2, 0, -em // 2, 0)
        picture = icon(choice.bound.icon, on_accent=chosen)
        picture.paint(painter, QRect(area.left(), area.top(), em, area.height()))
        area.adjust(em + em // 2, 0, 0, 0)
        shortcut_width = option.fontMetrics.horizontalAdvance(choice.shortcut)
        self._text(painter, option, area, quiet, choice.shortcut, Qt.AlignmentFlag.AlignRight)
        area.adjust(0, 0, -(shortcut_width + em), 0)
        self._text(painter, option, area, quiet if choice.reason else role, choice.title)
        area.adjust(option.fontMetrics.horizontalAdvance(choice.title) + em, 0, 0, 0)
        self._text(painter, option, area, quiet, choice.aside)

    def _text(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        area: QRect,
        role: QPalette.ColorRole,
        text: str,
        side: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft,
    ) -> None:
        painter.setPen(option.palette.color(role))
        shown = option.fontMetrics.elidedText(text, Qt.TextElideMode.ElideRight, max(0, area.width()))
        painter.drawText(area, side | Qt.AlignmentFlag.AlignVCenter, shown)
