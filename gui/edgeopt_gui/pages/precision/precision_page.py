"""The page itself: settings on the left, the plan on the right."""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from edgeopt import events
from edgeopt_gui.actions.action import Face
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.base import Page
from edgeopt_gui.pages.optimize.in_the_app import ending_in_the_app
from edgeopt_gui.pages.optimize.phases import progress_text
from edgeopt_gui.pages.optimize.slow import core, slow
from edgeopt_gui.pages.precision.plan_view import PlanView
from edgeopt_gui.pages.precision.rows import PlanReport
from edgeopt_gui.pages.precision.settings import PrecisionSettings
from edgeopt_gui.widgets.command_line import CommandLine
from edgeopt_gui.widgets.dialogs import BUNDLES, DATA, ONNX, choose_file, choose_folder, choose_save
from edgeopt_gui.widgets.states import BusyState, EmptyState, ErrorState

if TYPE_CHECKING:
    from edgeopt_gui.pages.optimize.core import Vocabulary

_FOUND = "edgeopt_gui.pages.precision.found"
_WIDE_LETTERS = 64
_PREPARE_AFTER_MS = 50
_EMPTY = "Open a model to plan the precision of its layers."
_BUNDLE = "A bundle has its precision already. Open the model that it was made from to plan it again."
_PROMISE = (
    "Measures what each layer costs in accuracy and saves in time in fewer bits, plans a scheme for each layer "
    "within the floor, and proves the plan on samples set aside. Your model is never changed."
)


class PrecisionPage(Page):
    MEASURES = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._reports: dict[Path, PlanReport] = {}
        """The latest report of each model in this session."""
        self._job: Job | None = None
        self._model_of_job: Path | None = None
        self._failure: Ending | None = None
        self._entered = False
        self._background = Background(self)
        self.settings = PrecisionSettings(context)
        self.ready, self.working, self.failure = EmptyState(_WIDE_LETTERS), BusyState(), ErrorState()
        self.view = PlanView()
        self.command_line = CommandLine()
        self.set_content(self._laid_out())
        self.settings.changed.connect(self._chosen)
        self.view.layer_chosen.connect(self.show_layer)
        self.view.point_changed.connect(context.changed)
        context.subject_changed.connect(self._subject_changed)
        context.data_changed.connect(self._chosen)
        self._subject_changed()

    # Actions of the user

    def start(self) -> None:
        model, command = self._model, self.command()
        if model is None or command is None:
            return
        self._failure = None
        job = self._job = self.context.jobs.run(command)
        self._model_of_job = model
        job.event_received.connect(self._event_received)
        job.ended.connect(lambda ending: self._ended(model, ending))
        self._show()

    def cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()
            self.working.sentence.setText("Stopping; cleaning up")
            self.context.changed.emit()

    def choose_data(self) -> None:
        path = choose_file(self, "Choose data", DATA, "data")
        if path is not None:
            self.context.use_data(path)

    def choose_data_folder(self) -> None:
        path = choose_folder(self, "Choose a folder of samples", "data")
        if path is not None:
            self.context.use_data(path)

    def choose_bundle(self) -> None:
        self._choose_place("Write a bundle to", BUNDLES, "bundle", ".edgeopt")

    def choose_onnx(self) -> None:
        self._choose_place("Write an ONNX model to", ONNX, "model", ".onnx")

    def _choose_place(self, title: str, pattern: str, key: str, suffix: str) -> None:
        model = self._model
        name = f"{model.stem}-quantized{suffix}" if model is not None else ""
        path = choose_save(self, title, pattern, key, name)
        if path is not None:
            self.settings.set_out(path if path.suffix == suffix else path.with_name(path.name + suffix))

    def use_floor_of_point(self) -> None:
        """Makes the accuracy of the selected point the floor, so that the next plan ends there."""
        report = self.view.report
        if report.points:
            point = report.points[self.view.index]
            value_db = point.expected_db if point.measured_db is None else point.low_db or point.measured_db
            # Rounded down, because the point itself must stay above the floor.
            self.settings.set_floor(value_db // 0.1 / 10)

    def show_layer(self, name: str) -> None:
        """Shows a layer of the plan on the page Graph."""
        position = next((node.position for node in self.context.nodes if node.name == name), None)
        if position is None:
            self.context.say(f"{name} is not among the nodes of the open model.")
            return
        self.context.go("graph")
        self.context.node_picked.emit(position)

    def take_drop(self, paths: list[Path]) -> bool:
        if len(paths) == 1 and paths[0].suffix == ".npz" and self._model is not None:
            self.context.use_data(paths[0])
            return True
        return False

    # Reasons why actions are not possible

    def why_not_start(self) -> str:
        if self._running:
            return "A plan is being made; cancel it first."
        subject = self.context.subject
        if subject is None:
            return "Open a model first."
        if subject.kind == "bundle":
            return "A bundle has its precision already: open the model that it was made from."
        return self.settings.problem or self.context.why_not_measure_device()

    def why_not_cancel(self) -> str:
        if not self._running:
            return "No plan is being made."
        return "The plan is stopping already." if self._job is not None and self._job.cancelled else ""

    def why_not_set(self) -> str:
        return "A plan is being made; cancel it first." if self._running else ""

    def why_not_use_beside(self) -> str:
        beside = self.settings.data.beside
        return self.why_not_set() or (
            "" if beside not in {None, self.context.data} else "There is no other data beside the model."
        )

    def why_not_clear_data(self) -> str:
        return self.why_not_set() or ("" if self.context.data is not None else "No data is chosen.")

    def why_not_clear_place(self) -> str:
        return self.why_not_set() or ("" if self.settings.out is not None else "No place is chosen.")

    def why_not_use_floor(self) -> str:
        if why := self.why_not_set():
            return why
        points = self.view.report.points if self._right.currentWidget() is self.view else ()
        if len(points) < 2:
            return "There is no frontier of plans."
        return "" if points[self.view.index].choices else "All layers are float here: no floor is needed."

    def why_not_show_layer(self) -> str:
        return "" if self.view.layers.current is not None else "No layer is selected."

    # Requests of the window

    @property
    def state(self) -> str:
        """The state of the page: beside the settings, a running plan is `busy` and a failed one an `error`."""
        found = super().state
        if found != "content":
            return found
        if self._running:
            return "busy"
        return "error" if self._right.currentWidget() is self.failure else "content"

    def command(self) -> Command | None:
        model = self._model
        if model is None:
            return None
        return self.settings.command(model, self.context.data)

    def face_of_start(self) -> Face | None:
        return Face("Plan again") if self._model in self._reports and not self._running else None

    def key_to_measure(self) -> str:
        return "precision.start"

    def has_measured(self) -> bool:
        return self._model in self._reports

    def entered(self) -> None:
        if self._entered:
            return
        self._entered = True
        # After the page is painted, which should not wait for the start of a process.
        QTimer.singleShot(_PREPARE_AFTER_MS, self, self._prepare)

    def _prepare(self) -> None:
        """Imports in a background thread what reads a report, and asks for the backends."""
        self._background.do(lambda: (slow(_FOUND), core(), core().vocabulary()), self._imported)
        job = self.context.jobs.run(Command("Listing the backends", ("backends",)))
        job.ended.connect(self._backends_listed)

    # Events

    @property
    def _model(self) -> Path | None:
        subject = self.context.subject
        return subject.path if subject is not None and subject.kind == "model" else None

    @property
    def _running(self) -> bool:
        return self._job is not None

    def _imported(self, imported: "tuple[ModuleType, ModuleType, Vocabulary]") -> None:
        found, accuracy, words = imported
        self.settings.set_methods(found.METHODS)
        self.settings.set_metrics(words.metrics, accuracy.accuracy_problem)
        self._chosen()

    def _backends_listed(self, ending: Ending) -> None:
        if ending.good:
            rows = ending.data["backends"]
            self.settings.set_backends([row["name"] for row in rows if row["available"]])
        else:
            self._entered = False  # "The fastest" still works

    def _chosen(self) -> None:
        self.command_line.set(self.command())
        self.context.changed.emit()

    def _subject_changed(self) -> None:
        if not self._running:
            self._failure = None
            self.settings.set_out(None)
            self.settings.sizes.line.clear()
        self._show()

    def _event_received(self, event: events.Event) -> None:
        job = self._job
        if isinstance(event, events.Progress) and job is not None and not job.cancelled:
            self.working.sentence.setText(progress_text(event))

    def _ended(self, model: Path, ending: Ending) -> None:
        self._job = None
        if ending.good:
            try:
                report: PlanReport = slow(_FOUND).read_report(ending.data)
            except msgspec.ValidationError as error:
                what = "The result of the plan cannot be read."
                details = f"{ending.details}\n{error}"
                ending = Ending("failed", {}, what, "Install one version of edgeopt.", details)
            else:
                self._reports[model] = report
                self.context.say(f"{model.name}: {report.summary}")
                bundle = next((Path(file) for file in report.files[:1]), None)
                if bundle is not None and self.settings.out is not None and self.settings.out.suffix == ".edgeopt":
                    self.context.use_bundle(self.settings.out)
        self._failure = None if ending.good else ending
        self._show()

    # Display

    def _show(self) -> None:
        model = self._model
        self.command_line.set(self.command())
        self.settings.fields.setEnabled(not self._running)
        if model is None and not self._running:
            if self.context.subject is not None:
                self.show_empty(_BUNDLE, "app.open-source", "app.see-precision")
            else:
                self.show_empty(_EMPTY, "app.open-model")
            self.context.changed.emit()
            return
        self.show_content()
        report = self._reports.get(model) if model is not None else None
        if self._running:
            self.working.set("Starting", "precision.cancel")
            self._right.setCurrentWidget(self.working)
        elif self._failure is not None and (self._failure.how != "cancelled" or report is None):
            self.failure.set(ending_in_the_app(self._failure), "precision.start")
            self._right.setCurrentWidget(self.failure)
        elif report is not None:
            self.view.show_report(report)
            self._right.setCurrentWidget(self.view)
        else:
            self.ready.set(_PROMISE, "precision.start")
            self._right.setCurrentWidget(self.ready)
        self.context.changed.emit()

    def _laid_out(self) -> QWidget:
        content = QWidget()
        self._right = QStackedWidget()
        for widget in (self.ready, self.working, self.failure, self.view):
            self._right.addWidget(widget)
        line = self.fontMetrics().height()
        columns = QHBoxLayout()
        columns.setSpacing(line * 2)
        columns.addWidget(self.settings)
        columns.addWidget(self._right, 1)
        outer = QVBoxLayout(content)
        outer.setContentsMargins(line, line, line, line)
        outer.setSpacing(line)
        outer.addLayout(columns, 1)
        outer.addWidget(self.command_line)
        return content
