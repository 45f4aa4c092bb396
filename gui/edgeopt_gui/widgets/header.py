"""The head of a page: its title, what the app looks at, and the page's first actions."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QToolButton, QWidget

from edgeopt_gui import theme
from edgeopt_gui.actions.action import Action
from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.subject import Subject
from edgeopt_gui.theme.icons import icon
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.elided_label import ElidedLabel

_SECONDARY = 2
_MIN_NAME_LETTERS = 8


class Header(QWidget):
    def __init__(self, book: ActionBook) -> None:
        super().__init__()
        self.setObjectName("header")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._book = book
        self._title = QLabel()
        self._title.setObjectName("title")
        self._subject = ElidedLabel()
        self._subject.setObjectName("subject")
        self._secondary = [ActionButton() for _ in range(_SECONDARY)]
        self._primary = ActionButton()
        self._more = QToolButton(autoRaise=True, popupMode=QToolButton.ToolButtonPopupMode.InstantPopup)
        self._more.setObjectName("more")
        self._more.setAccessibleName("More actions of this page")
        self._more.setToolTip("More actions of this page")
        self._more.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._more.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        self._menu = QMenu(self._more)
        self._more.setMenu(self._menu)
        line = self.fontMetrics().height()
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(line, line // 2, line, line // 2)
        row.setSpacing(line // 2)
        row.addWidget(self._title)
        row.addWidget(self._subject, 1)
        for button in (*self._secondary, self._primary, self._more):
            row.addWidget(button)
        for button in (*self._secondary, self._primary):
            button.use(book)
        self.setMinimumHeight(line * 3)
        theme.scheme_changed.connect(self._dress)
        self._dress()

    def show_entry(self, entry: Entry, shared: Sequence[Action]) -> None:
        """`shared` are actions of the window that belong into every page's menu."""
        self._title.setText(entry.title)
        self._menu.clear()
        for action in entry.actions:
            if action.begins_group and not self._menu.isEmpty():
                self._menu.addSeparator()
            self._menu.addAction(self._book[action.key].shown)
        self._menu.addSeparator()
        for action in shared:
            self._menu.addAction(self._book[action.key].shown)

    def announce(self, entry: Entry, shared: Sequence[Action]) -> None:
        """Shows the title of a page that is being made, and none of its actions."""
        self.show_entry(replace(entry, actions=()), shared)
        self.offer(entry, (), nothing=True)

    def offer(self, entry: Entry, in_page: Collection[str], *, nothing: bool = False) -> None:
        """Buttons for the first actions, but for those that have one in the page; `nothing`: for none."""
        mine = [a for a in entry.actions if a.icon and a.key not in in_page and not nothing]
        primary = next((action.key for action in mine if action.primary), "")
        others = [action.key for action in mine if not action.primary]
        self._primary.set_key(primary)
        for place, button in enumerate(self._secondary):
            button.set_key(others[place] if place < len(others) else "")

        self._make_room()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Returns a minimum size without the secondary buttons, which the menu has too."""
        return QSize(self._width_with(()), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Shows as many of the secondary buttons as have room."""
        offered = [button for button in self._secondary if button.key]
        fits = len(offered)
        while self.isVisible() and fits and self._width_with(offered[:fits]) > self.width():
            fits -= 1
        for place, button in enumerate(offered):
            button.setVisible(place < fits)

    def _width_with(self, secondary: Sequence[ActionButton]) -> int:
        row = self._row
        margins = row.contentsMargins()
        primary = (self._primary,) if self._primary.key else ()
        parts: list[int] = [
            widget.sizeHint().width() for widget in (self._title, *secondary, *primary, self._more)
        ]
        # The model's name needs room for a few letters and for one more gap.
        name = self.fontMetrics().averageCharWidth() * _MIN_NAME_LETTERS
        return sum(parts) + name + row.spacing() * len(parts) + margins.left() + margins.right()

    def show_subject(self, subject: Subject | None, watched: str = "") -> None:
        """Shows the name of the subject, or `watched` instead if it is not ""."""
        self._subject.set(watched or (subject.name if subject else ""), str(subject.path) if subject else "")

    def _dress(self) -> None:
        self._more.setIcon(icon("more"))
