"""The page itself: settings on the left, the search and what it found on the right."""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec
from PySide6.QtCore import QStandardPaths, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from edgeopt import events
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError
from edgeopt.profiles.targets import TargetVerdict
from edgeopt_gui.actions.action import Face
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import can_stop
from edgeopt_gui.pages.base import Page
from edgeopt_gui.pages.optimize import slow
from edgeopt_gui.pages.optimize.board import Row
from edgeopt_gui.pages.optimize.delivery import Delivery
from edgeopt_gui.pages.optimize.in_the_app import ending_in_the_app
from edgeopt_gui.pages.optimize.places import fresh_place, give_back, shown_path, sweep
from edgeopt_gui.pages.optimize.planner import Planner
from edgeopt_gui.pages.optimize.run import Order, Run
from edgeopt_gui.pages.optimize.run_view import RunView
from edgeopt_gui.pages.optimize.settings_panel import FoldingPanel, SettingsPanel
from edgeopt_gui.pages.optimize.situation import Search, Situation
from edgeopt_gui.pages.optimize.welcome import Welcome
from edgeopt_gui.widgets.command_line import CommandLine
from edgeopt_gui.widgets.dialogs import DATA, TEXTS, choose_file, choose_folder
from edgeopt_gui.widgets.states import ErrorState

if TYPE_CHECKING:
    from edgeopt_gui.pages.optimize.core import Vocabulary

_REDRAW_MS = 100
NEXT_STEPS = {
    "undecided": "Next: Search longer, which may decide it.",
    "keep what you have": "Next: search with another accuracy or time limit, or keep your model.",
}
SAVE_NEXT = "Next: save the bundle with Save as…, or deploy it."
UNSAVED = "Until you save it, the bundle lies in the cache:"


class OptimizePage(Page):
    MEASURES = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._runs: dict[Path, Run] = {}
        """The latest run of each model in this session."""
        self._run: Run | None = None
        """The run that is shown; None if there is none."""
        self._shown: Command | None = None
        self._panel_model: Path | None = None
        self._targets_requested = False
        self._background = Background(self)
        self._changed_rows: dict[str, Row] = {}
        self._redraw = QTimer(self, singleShot=True, interval=_REDRAW_MS)
        self._redraw.timeout.connect(self._show_progress)
        self.panel = SettingsPanel(context)
        self.settings = FoldingPanel(self.panel)
        self.delivery = Delivery(context, self, lambda: self._run, lambda: self.panel.choices.single_file)
        for worker in (self.delivery.keeper, self.delivery.handing):
            worker.note_changed.connect(self._kept)
        self.welcome = Welcome()
        self.view = RunView()
        self.planner = Planner(context, self)
        self.planner.begun.connect(self._plan_begun)
        self.planner.failed.connect(self._plan_failed)
        self.planner.view.left.connect(self._show_run)
        self.failure = ErrorState()
        self.command_line = CommandLine()
        self.set_content(self._laid_out())
        self.panel.changed.connect(self._chosen)
        self.view.candidates.picked.connect(context.changed)
        context.subject_changed.connect(self._subject_changed)
        context.data_changed.connect(self._chosen)
        self._subject_changed()

    # Actions of the user

    def start(self) -> None:
        order = self._order
        if order is not None:
            self._launch(order)

    def measure_again(self) -> None:
        """Repeats the search without the cache."""
        if self._run is not None and self._run.order is not None:
            self._launch(self._run.order, fresh=True)

    def search_longer(self) -> None:
        """Repeats the search with twice the time."""
        if self._run is not None and self._run.order is not None and self._run.result is not None:
            self._launch(self._run.order.longer(self._run.result.seconds))

    def pick(self) -> None:
        """Delivers the candidate under the cursor, of the search that is shown."""
        row, run = self.view.candidates.table.current, self._run
        if row is not None and run is not None and run.order is not None:
            self._launch(run.order, pick=row.candidate)

    def _launch(self, order: Order, *, fresh: bool = False, pick: str = "") -> None:
        model = order.model
        try:
            place = fresh_place(_root(), model)
        except EdgeoptError as error:
            self._show_failure(Ending("failed", {}, error.message, error.hint, named=error.named))
            return
        job = self.context.jobs.run(order.worked(place, fresh=fresh, pick=pick))
        last = self._runs.get(model)
        before = last if last is None or last.result is not None else last.before
        run = Run(model, place, order.shown(fresh=fresh, pick=pick), job, before=before, order=order, picked=pick)
        if pick and before is not None:
            run.board.rows = dict(before.board.rows)
        job.event_received.connect(lambda event: self._event_received(run, event))
        job.ended.connect(lambda ending: self._ended(run, ending))
        self._runs[model] = self._run = run
        runs = (*self._runs.values(), before)
        in_use = [r.place for r in runs if r is not None] + [p for p in (self.context.bundle,) if p is not None]
        self._background.do(lambda: sweep(_root(), in_use), lambda _: None)
        self._show_run()
        self.context.changed.emit()

    def face_of_start(self) -> Face | None:
        run = self._run
        if run is None or run.running:
            return None
        return Face("Resume the search" if run.cancelled or run.interrupted else "Search again")

    def command_of_start(self) -> Command | None:
        order = self._order
        return order.shown() if order is not None else None

    def cancel(self) -> None:
        if self._run is not None and self._run.running:
            self._run.job.cancel()
            self._show_progress()
            self.context.changed.emit()

    def stop(self) -> None:
        """Ends the search early; the best candidate so far is still proved and delivered."""
        if self._run is not None and self._run.running:
            self._run.job.stop()
            self._show_progress()
            self.context.changed.emit()

    def choose_data(self) -> None:
        title, pattern = ("Choose a text", TEXTS) if self.panel.data.takes_texts else ("Choose data", DATA)
        path = choose_file(self, title, pattern, "data")
        if path is not None:
            self.use_data(path)

    def choose_data_folder(self) -> None:
        path = choose_folder(self, "Choose a folder of samples", "data")
        if path is not None:
            self.use_data(path)

    def use_data(self, path: Path | None) -> None:
        self.context.use_data(path)

    def clear_data(self) -> None:
        self.use_data(None)

    def plan(self) -> None:
        """Opens the dialog that plans a search for another device."""
        self.planner.choose(self._order)

    def offer_forms(self) -> None:
        """Opens a menu of the formats to export to, below its button."""
        button = self.view.verdict.buttons["optimize.export-as"]
        self.delivery.menu(self).popup(button.mapToGlobal(button.rect().bottomLeft()))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self.settings.set_room(self.width())

    # Requests of the window

    def key_to_measure(self) -> str:
        return "optimize.fresh" if self.situation.found else "optimize.start"

    def has_measured(self) -> bool:
        return self._run is not None and bool(self._run.board.rows)

    @property
    def situation(self) -> Situation:
        subject, run, delivery = self.context.subject, self._run, self.delivery
        return Situation(
            opened="" if subject is None else "model" if subject.kind == "model" else "bundle",
            problem=self.panel.problem,
            plan_problem=self.planner.why_not(self._order),
            search=_search_of(run),
            picking=run is not None and bool(run.picked),
            can_stop=can_stop(),
            found=run is not None and run.result is not None,
            row=self.view.candidates.table.current,
            has_data=self.context.data is not None,
            beside=self.panel.data.beside not in {None, self.context.data},
            has_today=self.panel.today.path is not None,
            saving=delivery.keeper.busy,
            handing=delivery.handing.busy,
        )

    @property
    def state(self) -> str:
        """The state of the page: beside the settings, a running search is `busy` and a failed one an `error`."""
        found = super().state
        if found != "content":
            return found
        if self._searching:
            return "busy"
        return "error" if self._right.currentWidget() is self.failure else "content"

    def command(self) -> Command | None:
        return self._shown

    def prepare(self) -> None:
        # Imported in a background thread, long before a search has an outcome.
        self._background.do(slow.result, lambda _: None)
        if not self.delivery.formats:
            self._background.do(lambda: (slow.core(), slow.core().vocabulary()), self._core_read)

    def entered(self) -> None:
        self.prepare()
        if not self._targets_requested:
            self._targets_requested = True
            job = self.context.jobs.run(Command("Listing the targets", ("targets",)))
            job.ended.connect(self._targets_listed)

    # Results of jobs

    def _event_received(self, run: Run, event: events.Event) -> None:
        rows = run.board.apply(event)
        if run is self._run:
            self._changed_rows.update({row.name: row for row in rows})
            if not self._redraw.isActive():
                self._redraw.start()

    def _ended(self, run: Run, ending: Ending) -> None:
        if ending.good:
            ending = self._read(run, ending)
        if ending.good:
            verdict = run.result.verdict if run.result is not None else ""
            run.note = f"{NEXT_STEPS.get(verdict, SAVE_NEXT)} {UNSAVED} {shown_path(run.place)}"
            self.context.use_bundle(run.place)
            self.context.say(
                f"{run.model.name}: {slow.slow('edgeopt_gui.pages.optimize.result').headline_of(run.result)}."
                if run.result
                else ""
            )
        else:
            run.failure = ending
            if run.cancelled:
                run.board.cancel()
            self._background.do(lambda: give_back(run.place), lambda _: None)
        shown = run is self._run
        if run.before is not None and (run.cancelled or (run.picked and run.failure is not None)):
            self._runs[run.model] = run.before
            run.before.note = _why_the_one_before(run)
            run.before.interrupted = run.cancelled and not run.picked
            self._run = run.before if shown else self._run
        if run.result is not None:
            run.before = None
        if shown:
            self._show_run()
        self.context.changed.emit()

    def _read(self, run: Run, ending: Ending) -> Ending:
        try:
            run.result = slow.result().read_result(ending.data)
        except msgspec.ValidationError as error:
            what = "The result of the search cannot be read."
            return Ending("failed", {}, what, "Install one version of edgeopt.", f"{ending.details}\n{error}")
        run.board.finish(run.result)
        return ending

    def _core_read(self, read: tuple[ModuleType, "Vocabulary"]) -> None:
        core, words = read
        self.delivery.formats = words.formats
        self.panel.set_core(words, core.problems)

    def _plan_begun(self, command: Command) -> None:
        self._right.setCurrentWidget(self.planner.view)
        self._show_command(command)

    def _plan_failed(self, ending: Ending) -> None:
        if self._right.currentWidget() is not self.planner.view:
            return  # another model is open, or a search was started
        if ending.how == "cancelled":
            self._show_run()
        else:
            self._show_failure(ending)

    def _targets_listed(self, ending: Ending) -> None:
        if ending.good:
            self.panel.set_targets(msgspec.convert(ending.data["targets"], thread_safe(tuple[TargetVerdict, ...])))
        else:
            self._targets_requested = False  # the automatic choice still works

    def _kept(self, run: Run) -> None:
        if run is self._run:
            self.view.verdict.say(run.note, run.retry)
        self.context.changed.emit()

    # Display

    @property
    def _model(self) -> Path | None:
        subject = self.context.subject
        return subject.path if subject is not None and subject.kind == "model" else None

    @property
    def _searching(self) -> bool:
        return self._run is not None and self._run.running

    @property
    def _order(self) -> Order | None:
        """The search that the present choices describe; None without a model."""
        model = self._model
        if model is None:
            return None
        panel = self.panel
        return Order(model, self.context.data, panel.today.path, panel.choices, panel.shape, panel.pre)

    def _chosen(self) -> None:
        if not self._searching:
            self._show_command(self.command_of_start())
        self.context.changed.emit()

    def _subject_changed(self) -> None:
        model = self._model
        if model != self._panel_model:
            self._panel_model = model
            self.panel.forget_model()
        if not self._searching:
            self._run = self._runs.get(model) if model is not None else None
        self._show_run()

    def _show_run(self) -> None:
        """Shows another run, or one that has ended, in full."""
        self._changed_rows.clear()
        self._redraw.stop()
        run, model, subject = self._run, self._model, self.context.subject
        if run is None and model is None:
            self._show_command(None)
            bundle = "This is a bundle, optimized already. Open the model that it was made from to search again."
            self.show_empty(
                bundle if subject else "Open a model to find its fastest deployment.",
                "app.open-source" if subject else "app.open-model",
            )
            return
        self.show_content()
        self.settings.race(self._searching, found=run is not None and run.result is not None)
        self._show_command(run.shown if run is not None else self.command_of_start())
        if run is None or (run.cancelled and not run.board.rows):
            self.welcome.set(model.name if model else "", run.failure.what if run and run.failure else "")
            self._right.setCurrentWidget(self.welcome)
        elif run.failure is not None and not run.cancelled:
            self._show_failure(run.failure)
        else:
            self.view.show_run(run)
            other = subject is not None and subject.path != run.model
            open_now = f"; {subject.name} is open now" if subject else ""
            self.view.say_about(
                f"This search is about {run.model.name}{open_now}." if other or not subject else ""
            )
            self._right.setCurrentWidget(self.view)

    def _show_command(self, command: Command | None) -> None:
        self._shown = command
        self.command_line.set(command)

    def _show_failure(self, ending: Ending) -> None:
        self.failure.set(ending_in_the_app(ending), "optimize.start")
        self._right.setCurrentWidget(self.failure)

    def _show_progress(self) -> None:
        if self._run is not None:
            rows = list(self._changed_rows.values())
            self._changed_rows.clear()
            self.view.show_progress(self._run, rows)

    def _laid_out(self) -> QWidget:
        content = QWidget()
        self._right = QStackedWidget()
        for widget in (self.welcome, self.view, self.planner.view, self.failure):
            self._right.addWidget(widget)
        height = self.fontMetrics().height()
        self._columns = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._columns.addWidget(self.settings)
        self._columns.addWidget(self._right, 1)
        self.settings.head.toggled.connect(self._place_settings)
        self._place_settings(self.settings.head.isChecked())
        outer = QVBoxLayout(content)
        outer.setContentsMargins(height, height, height, height)
        outer.setSpacing(height)
        outer.addLayout(self._columns, 1)
        outer.addWidget(self.command_line)
        return content

    def _place_settings(self, unfolded: bool) -> None:
        """Puts the settings beside the search, or in a line above it while they are folded."""
        direction = QBoxLayout.Direction
        self._columns.setDirection(direction.LeftToRight if unfolded else direction.TopToBottom)
        height = self.fontMetrics().height()
        self._columns.setSpacing(height * 2 if unfolded else height // 2)


def _root() -> Path:
    cache = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericCacheLocation)
    return Path(cache) / "edgeopt" / "searches"


def _search_of(run: Run | None) -> Search:
    if run is None or not run.running:
        return ""
    return "cancelling" if run.job.cancelled else "stopping" if run.job.stopping else "running"


def _why_the_one_before(run: Run) -> str:
    """Returns why the result of an earlier search is shown again."""
    if run.cancelled:
        what = "Delivering another candidate" if run.picked else "The new search"
        return f"{what} was cancelled; this is what the search before found."
    failure = ending_in_the_app(run.failure) if run.failure is not None else None
    reason = f"{failure.what} {failure.next_step}" if failure is not None else ""
    return f"The other candidate was not delivered. {reason}".strip()
