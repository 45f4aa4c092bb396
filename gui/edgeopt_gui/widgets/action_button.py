"""A button that does an action: its text, its icon and whether it can be pressed are the action's own."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QWidget

from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.theme.icons import icon


class ActionButton(QPushButton):
    def __init__(self, key: str = "", parent: QWidget | None = None, text: str = "") -> None:
        super().__init__(parent)
        self._key = key
        self._own_text = text
        self._book: ActionBook | None = None
        self.always = bool(key)
        """Whether the button belongs to one action, instead of changing its action with `set_key`."""
        self.stands_out = False
        """Whether the button looks like that of a primary action, as in an empty page."""
        self.clicked.connect(self._trigger)
        if not key:  # never shown from here: without a parent it would be a window
            self.hide()

    @property
    def key(self) -> str:
        return self._key

    def use(self, book: ActionBook) -> None:
        """Connects the button to the table of actions, once the table is complete."""
        self._book = book
        book.refreshed.connect(self._refresh)
        self._refresh()

    def set_key(self, key: str) -> None:
        """Sets the action of the button; "" hides the button."""
        self._key = key
        self.setVisible(bool(key))
        self._refresh()

    def setVisible(self, visible: bool) -> None:  # noqa: N802 - Qt's name
        if not visible:
            self._let_go()
        super().setVisible(visible)

    def _let_go(self) -> None:
        """Moves the focus to the parent; Qt would move it to the next widget, where keys may change a text."""
        parent = self.parentWidget()
        if self.hasFocus() and parent is not None:
            parent.setFocus(Qt.FocusReason.OtherFocusReason)

    def _trigger(self) -> None:
        if self._book is not None and self._key:
            self._book[self._key].shown.trigger()

    def _refresh(self) -> None:
        if self._book is None or not self._key:
            return
        bound = self._book[self._key]
        self.setText(self._own_text or bound.title)
        self.setAccessibleName(bound.title)
        self.setIcon(icon(bound.icon, on_accent=bound.action.primary or self.stands_out))
        if not bound.shown.isEnabled():
            self._let_go()
        self.setEnabled(bound.shown.isEnabled())
        self.setToolTip(bound.shown.toolTip())
        primary = bound.action.primary or self.stands_out
        if bool(self.property("primary")) != primary:
            self.setProperty("primary", primary)
            self.style().unpolish(self)
            self.style().polish(self)
