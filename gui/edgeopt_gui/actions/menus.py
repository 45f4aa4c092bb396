"""The menu bar, made from the table of actions."""

from collections.abc import Sequence

from PySide6.QtWidgets import QMenu, QMenuBar

from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.actions.shell import FILE, HELP, VIEW


class Menus:
    """Fills a menu bar; called again when more pages brought their actions."""

    def __init__(self, bar: QMenuBar, book: ActionBook, titles: Sequence[str], recent: QMenu) -> None:
        self._book = book
        self._recent = recent
        self._menus: dict[str, QMenu] = {}
        for title in (FILE, VIEW, *titles, HELP):
            self._menus[title] = bar.addMenu(f"&{title}")
        self._help = self._menus[HELP].menuAction()
        self._bar = bar
        self._known: set[str] = set()

    def fill(self) -> None:
        """Adds what is not in a menu yet."""
        for bound in self._book:
            action = bound.action
            if action.key in self._known:
                continue
            self._known.add(action.key)
            menu = self._menus.get(action.menu) or self._new(action.menu)
            if action.begins_group and not menu.isEmpty():
                menu.addSeparator()
            menu.addAction(bound.shown)
            if action.key == "app.open-sample":
                menu.addMenu(self._recent)
                menu.addSeparator()
            elif action.key in {"app.close", "app.cancel-jobs"}:
                menu.addSeparator()

    def _new(self, title: str) -> QMenu:
        menu = QMenu(f"&{title}", self._bar)
        self._bar.insertMenu(self._help, menu)
        self._menus[title] = menu
        return menu
