"""The base class of pages, and the four states that each page has."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedLayout, QVBoxLayout, QWidget

from edgeopt_gui.actions.action import Action
from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.subject import subject_at
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.quiet_banner import QuietBanner
from edgeopt_gui.widgets.states import OPENS_A_MODEL, BusyState, EmptyState, ErrorState


class Page(QWidget):
    """A page, which shows its content, that there is none yet, that it is loading, or why it failed.

    A page builds its content in its own `__init__`, and gives it to `set_content`.
    """

    MEASURES: ClassVar[bool] = False
    """Whether the page shows figures that other load can disturb; `key_to_measure` measures them again."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._empty = EmptyState()
        self._busy = BusyState()
        self._error = ErrorState()
        self._empty.recent.chosen.connect(lambda path: context.open(subject_at(path)))
        context.settings.changed.connect(self._offer_recent)
        self._content = QWidget()
        self._stack = QStackedLayout()
        self.banner = QuietBanner(context.quiet, self.key_to_measure, self.has_measured) if self.MEASURES else None
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        if self.banner is not None:
            rows.addWidget(self.banner)
        rows.addLayout(self._stack, 1)
        for state in (self._empty, self._busy, self._error, self._content):
            self._stack.addWidget(state)

    def set_content(self, content: QWidget) -> None:
        self._stack.removeWidget(self._content)
        self._content.deleteLater()
        self._content = content
        self._stack.addWidget(content)

    @property
    def state(self) -> str:
        """`empty`, `busy`, `error` or `content`."""
        names = {id(self._empty): "empty", id(self._busy): "busy", id(self._error): "error"}
        return names.get(id(self._stack.currentWidget()), "content")

    def show_empty(self, sentence: str, action: str = "", other: str = "") -> None:
        """Shows a sentence, and buttons for up to two actions."""
        self._empty.set(sentence, action, other)
        self._offer_recent()
        self._stack.setCurrentWidget(self._empty)

    def show_busy(self, sentence: str, cancel: str = "") -> None:
        """Shows that work is in progress; `cancel` is the key of the action that stops it."""
        self._busy.set(sentence, cancel)
        self._stack.setCurrentWidget(self._busy)

    def show_error(self, ending: Ending, retry: str = "", other: str = "") -> None:
        """Shows what happened, why, what to do next, and buttons for the actions `retry` and `other`."""
        self._error.set(ending, retry, other)
        self._stack.setCurrentWidget(self._error)

    def show_refusal(self, ending: Ending) -> None:
        """Shows why a file dropped on this page cannot be opened."""
        self.show_error(ending, OPENS_A_MODEL)

    def show_content(self) -> None:
        self._stack.setCurrentWidget(self._content)

    def _offer_recent(self) -> None:
        self._empty.offer(self.context.settings.recent())

    def use(self, book: ActionBook) -> None:
        """Connects every `ActionButton` in the page; once, by the window."""
        for button in self.findChildren(ActionButton):
            button.use(book)
        if self.banner is not None:
            self.banner.use(book)

    def key_to_measure(self) -> str:
        """Returns the key of the action that measures the page's figures again."""
        return ""

    def has_measured(self) -> bool:
        """Whether the page shows measured figures."""
        return False

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        if self.banner is not None and not event.spontaneous():
            self.context.quiet.start()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 - Qt's name
        super().hideEvent(event)
        if self.banner is not None and not event.spontaneous():
            self.context.quiet.stop()

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        """Returns False: each page gets all the room there is, so that the window need not lay out hidden ones."""
        return False

    def take_drop(self, _paths: list[Path]) -> bool:
        """Whether the page had a use of its own for what was dropped on the window."""
        return False

    def in_content(self) -> frozenset[str]:
        """Returns the keys of actions with a button in the content, which the header need not repeat."""
        buttons = self._content.findChildren(ActionButton)
        return frozenset(b.key for b in buttons if b.always or b.isVisibleTo(self._content))

    def prepare(self) -> None:
        """Begins to import what the first visit needs, while the app is idle."""

    def entered(self) -> None:
        """Starts what the page does only while it is visible, such as drawing by a timer."""

    def left(self) -> None:
        """Stops what the page does only while it is visible."""

    def watched(self) -> str:
        """Returns the name of the model or fleet that the page shows; "" for the open model or bundle."""
        return ""

    def command(self) -> Command | None:
        """Returns the command line for the content of the page; None if there is none at the moment."""
        return None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table of pages."""

    key: str
    """The name of the page for `--page`, and the first part of the keys of its actions."""
    title: str
    icon: str
    """Name of a file in `theme/icons`, without `.svg`."""
    make: Callable[[Context], Page]
    actions: tuple[Action, ...]
    purpose: str = ""
    """Sentence of the help about the use of the page."""
    also: str = ""
    """Other words by which the command palette finds the page."""
