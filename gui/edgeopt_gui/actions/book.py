"""All actions of the app as Qt actions: made once, their state asked again whenever something changed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QKeySequence

from edgeopt_gui.actions.action import Action
from edgeopt_gui.jobs.command import Command


@dataclass(frozen=True, slots=True)
class Bound:
    """An action with its owner and its Qt action."""

    action: Action
    owner: Any
    shown: QAction

    @property
    def title(self) -> str:
        """The title for the present state of the action's owner."""
        face = self.action.face(self.owner)
        return face.title if face is not None else self.action.title

    @property
    def icon(self) -> str:
        face = self.action.face(self.owner)
        return (face.icon if face is not None else "") or self.action.icon

    def why_not(self) -> str:
        return self.action.why_not(self.owner)

    def command(self) -> Command | None:
        return self.action.command(self.owner)


class ActionBook(QObject):
    refreshed = Signal()
    about_to_run = Signal(object)
    """The `Bound` that is about to run."""
    refaced = Signal(object)
    """A `Bound` whose title or icon has changed."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bound: dict[str, Bound] = {}

    def add(self, actions: Iterable[Action], owner: QObject) -> None:
        added = []
        for action in actions:
            if action.key in self._bound:
                raise ValueError(f"two actions are called {action.key}")
            shown = QAction(action.title, self)
            shown.setObjectName(action.key)
            if action.shortcut:
                shown.setShortcut(QKeySequence(action.shortcut))
            bound = Bound(action, owner, shown)
            shown.triggered.connect(lambda _=False, bound=bound: self._trigger(bound))
            self._bound[action.key] = bound
            added.append(bound)
        for bound in added:
            self._refresh(bound)

    def __getitem__(self, key: str) -> Bound:
        return self._bound[key]

    def __iter__(self) -> Iterator[Bound]:
        return iter(self._bound.values())

    def refresh(self) -> None:
        """Asks every action whether it can be done, and tells why not in its tip."""
        for bound in self:
            self._refresh(bound)
        self.refreshed.emit()

    def _refresh(self, bound: Bound) -> None:
        reason, title = bound.why_not(), bound.title
        if bound.shown.text() != title:
            bound.shown.setText(title)
            self.refaced.emit(bound)
        bound.shown.setEnabled(not reason)
        shortcut = bound.shown.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        tip = f"{title} ({shortcut})" if shortcut else title
        bound.shown.setToolTip(f"{tip}\n{reason}" if reason else tip)
        bound.shown.setStatusTip(reason or title)

    def _trigger(self, bound: Bound) -> None:
        # A shortcut can be pressed after a state change but before the refresh that disables the action.
        if not bound.why_not():
            self.about_to_run.emit(bound)
            bound.action.run(bound.owner)
        self.refresh()
