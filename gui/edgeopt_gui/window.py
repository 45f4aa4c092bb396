"""The window: rail, header, pages, menus, status bar, log; it connects them and knows nothing of models."""

import gc
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QChildEvent, QMimeData, Qt, QTimer, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QGuiApplication,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QDialog, QHBoxLayout, QMainWindow, QMenu, QStackedWidget, QVBoxLayout, QWidget

from edgeopt.errors import EdgeoptError
from edgeopt_gui import theme, window_state
from edgeopt_gui.actions.action import Action
from edgeopt_gui.actions.book import ActionBook, Bound
from edgeopt_gui.actions.menus import Menus
from edgeopt_gui.actions.shell import IN_EVERY_PAGE, of_the_window
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.drops import sort_out
from edgeopt_gui.imports.choices import ImportChoices, choices_for
from edgeopt_gui.imports.dialog import PYTHON, ImportDialog
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.quitting import Quitting
from edgeopt_gui.source_model import SourceModel, source_of
from edgeopt_gui.theme.dressing import Dressing, dress
from edgeopt_gui.theme.icons import icon
from edgeopt_gui.widgets import dialogs
from edgeopt_gui.widgets.about import AboutDialog, HelpDialog
from edgeopt_gui.widgets.drop_hint import DropHint
from edgeopt_gui.widgets.failure_dialog import FailureDialog
from edgeopt_gui.widgets.header import Header
from edgeopt_gui.widgets.jobs_bar import JobsBar
from edgeopt_gui.widgets.log_dock import LogDock
from edgeopt_gui.widgets.palette import Palette
from edgeopt_gui.widgets.rail import Rail
from edgeopt_gui.widgets.settings_dialog import SettingsDialog

_MESSAGE_MS = 12_000
# Longer than Qt takes to paint a change, so that a page's title is seen before the page is made.
_FRAME_MS = 10
_OPEN_ANOTHER = "Open a model or a bundle with Ctrl+O, or drop one here."


class Window(QMainWindow):
    first_frame = Signal()
    """Emitted when the window is painted for the first time."""

    def __init__(self, context: Context, entries: Sequence[Entry], page: str = "") -> None:
        """Begins with the page of that key, or with the first one."""
        super().__init__()
        self._painted = False
        self.context = context
        self._entries = {entry.key: entry for entry in entries}
        self._pages: dict[str, Page] = {}
        self._made: dict[str, Page] = {}
        """Pages that are not in the window yet."""
        self._laid_out: set[str] = set()
        """Keys of the pages that were styled and laid out before their first visit."""
        self._steps = self._make_in_steps()
        self._shown = ""
        self.log = LogDock(context.jobs, self)
        self.book = ActionBook(self)
        self.book.add(of_the_window(entries), self)
        self.rail = Rail(entries)
        self.header = Header(self.book)
        self._stack = QStackedWidget()
        self._coming = ""
        """Key of a page that was chosen and is still being made; "" for none."""
        self._blank = QWidget()
        """Empty page that the stack shows until the chosen one is made."""
        self._stack.addWidget(self._blank)
        self._dressing = Dressing(self._stack, self)
        self._recent = QMenu("Recent files", self)
        self._menus = Menus(self.menuBar(), self.book, [entry.title for entry in entries], self._recent)
        self.jobs_bar = JobsBar(context.jobs)
        self._failure = FailureDialog(self)
        self._background = Background(self)
        self._quitting = Quitting(self, context.jobs, context.settings)
        self._lay_out()
        self._hint = DropHint(self)
        self.setAcceptDrops(True)
        self.setMinimumSize(window_state.minimum(self))
        self._connect()
        self._dress()
        self._subject_changed()
        self._fill_recent()
        window_state.restore(self, context.settings)
        self.show_page(page if page in self._entries else next(iter(self._entries)))

    # Pages

    def show_page(self, key: str) -> None:
        """Makes it on its first visit."""
        if key not in self._entries:
            return
        page = self.page(key)
        self.rail.mark(key)
        coming, self._coming = self._coming, ""
        if key == self._shown and not coming:
            return
        before, self._shown = self._pages.get(self._shown), key
        if before is not None and before is not page:
            before.left()
        dress(page)
        self._stack.setCurrentWidget(page)
        self.header.show_entry(self._entries[key], self._shared())
        self.book.refresh()
        if before is not page:
            page.entered()

    def visit(self, key: str) -> None:
        """Shows a page that the user chose; its title at once, and its content in steps if it is not made yet."""
        if key in self._pages or key not in self._entries:
            self.show_page(key)
            return
        self.rail.mark(key)
        self.header.announce(self._entries[key], self._shared())
        self._stack.setCurrentWidget(self._blank)
        if not self._coming:
            QTimer.singleShot(_FRAME_MS, self, self._come)
        self._coming = key

    def _come(self) -> None:
        if not self._coming:
            return  # another page was shown meanwhile
        if next(self._make_steps(self._coming), None) is None:
            self.show_page(self._coming)
        else:
            QTimer.singleShot(0, self, self._come)

    def _shared(self) -> list[Action]:
        return [self.book[each].action for each in IN_EVERY_PAGE]

    def page(self, key: str) -> Page:
        if key not in self._pages:
            entry = self._entries[key]
            page = self._made.pop(key, None) or entry.make(self.context)
            page.setObjectName(f"page-{key}")
            page.setAccessibleName(entry.title)
            self._pages[key] = page
            self._stack.addWidget(page)
            dress(page)
            self.book.add(entry.actions, page)
            for action in entry.actions:
                self._reface(self.book[action.key])
            page.use(self.book)
            self._menus.fill()
        return self._pages[key]

    def make_all(self) -> None:
        for key in self._entries:
            self.page(key)

    def make_one_more(self) -> None:
        """Makes the pages in short steps while the app is idle, so that neither window nor user waits for them."""
        step = next(self._steps, None)
        if step is not None:
            QTimer.singleShot(0, self, self.make_one_more)
        else:
            gc.freeze()

    def _make_in_steps(self) -> Iterator[str]:
        """Yields the key of a page after each step: made, put into the window, styled and laid out."""
        for key in self._entries:
            yield from self._make_steps(key)
        for key, page in self._pages.items():
            page.prepare()
            yield key

    def _make_steps(self, key: str) -> Iterator[str]:
        if key not in self._pages and key not in self._made:
            self._made[key] = self._entries[key].make(self.context)
            yield key
        if key not in self._pages:
            self.page(key)
            yield key
        page = self._pages[key]
        if key != self._shown and key not in self._laid_out:
            self._laid_out.add(key)
            page.resize(self._stack.size())
            page.grab()  # does what the first visit would wait for
            yield key

    @property
    def shown_page(self) -> Page:
        return self._pages[self._shown]

    # Actions of the user

    def choose_model(self) -> None:
        self._open_chosen(dialogs.choose_file(self, "Open a model", dialogs.models(), "model"))

    def ask_import(self, choices: ImportChoices | None = None) -> None:
        """Opens the dialog with the choices of an import."""
        wished = choices or choices_for("", self.context.settings.text(PYTHON))
        dialog = ImportDialog(self, self.context, wished)
        dialog.submitted.connect(self.context.import_model)
        self._open_once(dialog)

    def choose_bundle(self) -> None:
        self._open_chosen(dialogs.choose_folder(self, "Open a bundle folder", "bundle"))

    def choose_bundle_file(self) -> None:
        self._open_chosen(dialogs.choose_file(self, "Open a single-file bundle", dialogs.BUNDLES, "bundle"))

    def open_sample(self) -> None:
        from edgeopt.data.demo import DATA, MODEL

        self.open_paths([MODEL, DATA])

    def optimize_sample(self) -> None:
        """Opens the sample and starts its search, on the page that shows it."""
        self.open_sample()
        self.show_page("optimize")
        self.book["optimize.start"].shown.trigger()

    def why_not_optimize_sample(self) -> str:
        page = self._pages.get("optimize")
        searches = page is not None and page.state == "busy"
        return "A search is running; cancel it first." if searches else self.why_no_page("optimize")

    def watch_device(self) -> None:
        """Asks for the address of an agent, on the page that shows it."""
        self.show_page("live")
        self.book["live.connect"].shown.trigger()

    def see_precision(self) -> None:
        self.show_page("graph")
        self.book["graph.colour-by-precision"].shown.trigger()

    def why_no_page(self, key: str) -> str:
        return "" if key in self._entries else f"This window has no page {key.title()}."

    def open_source(self) -> None:
        """Opens the model from which the bundle was made; asks the user if it is not found."""
        subject, recent = self.context.subject, self.context.settings.recent()
        if subject is not None:
            self._background.do(lambda: source_of(subject.path, recent), self._open_found)

    def why_not_open_source(self) -> str:
        subject = self.context.subject
        return "" if subject is not None and subject.kind == "bundle" else "No bundle is open."

    def _open_found(self, found: SourceModel | EdgeoptError) -> None:
        if isinstance(found, EdgeoptError):
            self.context.report(Ending("failed", {}, found.message, found.hint))
        elif found.path is not None:
            self.open_paths([found.path])
        else:
            self._open_chosen(dialogs.choose_file(self, f"Where is {found.name}?", dialogs.models(), "model"))

    def open_paths(self, paths: Sequence[Path], on: str = "") -> None:
        """Models, bundles and data, as they come from a drop, the command line or the recent files.

        What cannot be opened is said in the status bar, or on the page `on`.
        """
        dropped = sort_out(paths, has_model=self.context.subject is not None)
        if dropped.refusal:
            self.context.say(dropped.refusal)
            if on:
                self.show_page(on)
                files = "\n".join(str(path) for path in paths)
                self.page(on).show_refusal(Ending("failed", {}, dropped.refusal, _OPEN_ANOTHER, files))
            return
        if dropped.source:
            self.show_page("model")
            python = self.context.settings.text(PYTHON)
            self.ask_import(choices_for(dropped.source, python, dropped.data))
            return
        if dropped.subject is not None:
            self.context.open(dropped.subject)
            self.show_page("model")
        if dropped.data is not None:
            self.context.use_data(dropped.data)
            self.context.say(f"The data is {dropped.data.name}.")
            if dropped.subject is None:
                self.show_page("optimize")

    def close_subject(self) -> None:
        self.context.open(None)

    def why_not_close(self) -> str:
        return "" if self.context.subject else "No model is open."

    def show_settings(self) -> None:
        dialog = SettingsDialog(self.context.settings, self)
        dialog.reset.connect(self._reset_everything)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def show_palette(self) -> None:
        Palette(self.book, self).show()

    def toggle_log(self) -> None:
        self.log.setVisible(self.log.isHidden())
        if not self.log.isHidden():
            self.log.filter.setFocus()

    def reset_layout(self) -> None:
        window_state.arrange(self)
        self.log.setFloating(False)
        self.log.hide()

    def copy_command(self) -> None:
        command = self.shown_page.command()
        if command is not None:
            QGuiApplication.clipboard().setText(command.line)
            self.context.say(f"Copied: {command.line}")

    def why_not_copy_command(self) -> str:
        page = self._pages.get(self._shown)
        return "" if page is not None and page.command() else "This page has no command line at the moment."

    def cancel_jobs(self) -> None:
        for job in self.context.jobs.jobs:
            job.cancel()

    def why_no_jobs(self) -> str:
        return "" if self.context.jobs.jobs else "No job is running."

    def show_help(self) -> None:
        pages = ((entry.title, entry.purpose) for entry in self._entries.values())
        self._open_once(HelpDialog(pages, self.book, self))

    def show_about(self) -> None:
        self._open_once(AboutDialog(self))

    # Events

    def quit_now(self) -> None:
        """Quits without asking, on a signal from outside."""
        if self.context.jobs.jobs:
            self._quitting.leave()
        else:
            self.close()

    def show_failure(self, ending: Ending) -> None:
        """Shows a failure that no page shows, be it from a job or the app itself."""
        self.log.say("error", "edgeopt-gui", f"{ending.what} {ending.next_step}")
        self._failure.show_ending(ending)

    def _lay_out(self) -> None:
        right = QVBoxLayout()
        right.setContentsMargins(0, 0, 0, 0)
        right.setSpacing(0)
        right.addWidget(self.header)
        right.addWidget(self._stack, 1)
        central = QWidget()
        row = QHBoxLayout(central)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.rail)
        row.addLayout(right, 1)
        self.setCentralWidget(central)
        self.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, self.log)
        self.log.hide()
        self.statusBar().addPermanentWidget(self.jobs_bar)
        self._menus.fill()
        for part in (self.rail, self.header, self.menuBar(), self.statusBar(), self.log, self._recent):
            self._dressing.add(part)

    def _connect(self) -> None:
        context = self.context
        self.rail.chosen.connect(self.visit)
        self.book.about_to_run.connect(self._show_owner)
        self.book.refreshed.connect(self._offer_in_header)
        self.book.refaced.connect(self._reface)
        self.log.visibilityChanged.connect(self.book.refresh)
        context.page_requested.connect(self.show_page)
        context.import_dialog_requested.connect(self.ask_import)
        context.subject_changed.connect(self._subject_changed)
        for signal in (context.changed, context.jobs.started, context.jobs.ended):
            signal.connect(self.book.refresh)
        context.status_message.connect(lambda sentence: self.statusBar().showMessage(sentence, _MESSAGE_MS))
        context.failed.connect(self.show_failure)
        context.settings.changed.connect(self._fill_recent)
        self._hint.dropped.connect(self._dropped)
        self._quitting.ready.connect(self.close)
        theme.scheme_changed.connect(self._dress)

    def _offer_in_header(self) -> None:
        if self._shown and not self._coming:
            page = self.shown_page
            # An empty page shows its possible actions itself; the header does not repeat them as disabled buttons.
            has_own = page.state == "empty"
            self.header.offer(self._entries[self._shown], page.in_content(), nothing=has_own)
            self.header.show_subject(self.context.subject, page.watched())

    def _show_owner(self, bound: Bound) -> None:
        """Shows the page that owns an action, before the action runs."""
        for key, page in self._pages.items():
            if bound.owner is page:
                self.show_page(key)

    def _subject_changed(self) -> None:
        subject = self.context.subject
        self.setWindowTitle(f"{subject.name} — edgeopt" if subject else "edgeopt")
        self.book.refresh()

    def _fill_recent(self) -> None:
        self._recent.clear()
        for path in self.context.settings.recent():
            action = self._recent.addAction(path.name.replace("&", "&&"))
            action.triggered.connect(partial(self.open_paths, [path]))
            action.setToolTip(str(path))
        self._recent.setToolTipsVisible(True)
        self._recent.setEnabled(not self._recent.isEmpty())
        if not self._recent.isEmpty():
            self._recent.addSeparator()
            self._recent.addAction("Forget these files", self.context.settings.forget_recent)

    def _dress(self) -> None:
        self.setWindowIcon(icon("optimize"))
        for bound in self.book:
            self._reface(bound)
        self.book.refresh()

    def _reface(self, bound: Bound) -> None:
        bound.shown.setIcon(icon(bound.icon))

    def _open_chosen(self, path: Path | None) -> None:
        if path is not None:
            self.open_paths([path])

    def _open_once(self, dialog: QDialog) -> None:
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _reset_everything(self) -> None:
        self.context.settings.reset()
        self.reset_layout()
        self.context.say("All settings are reset.")

    def _dropped(self, mime: QMimeData) -> None:
        paths = [Path(url.toLocalFile()) for url in mime.urls() if url.isLocalFile()]
        if not paths or not self.shown_page.take_drop(paths):
            self.open_paths(paths)

    # Qt's events

    def childEvent(self, event: QChildEvent) -> None:  # noqa: N802 - Qt's name
        """Dresses dialogs and whatever else becomes a child of the window, before it is shown."""
        super().childEvent(event)
        child = event.child() if event.polished() else None
        if isinstance(child, QWidget) and child is not self.centralWidget():
            self._dressing.add(child)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 - Qt's name
        if event.mimeData().hasUrls():
            event.acceptProposedAction()
            self._hint.cover()

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:  # noqa: N802 - Qt's name
        # The hint is under the pointer now and gets its events, unless the pointer left the window.
        if not self._hint.underMouse():
            self._hint.hide()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 - Qt's name
        self._hint.hide()
        event.acceptProposedAction()
        self._dropped(event.mimeData())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            self.first_frame.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        if self._hint.isVisible():
            self._hint.cover()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 - Qt's name
        if not self._quitting.may_close():
            event.ignore()
            return
        window_state.keep(self, self.context.settings, self._coming or self._shown)
        if self._shown:
            self.shown_page.left()
        event.accept()
