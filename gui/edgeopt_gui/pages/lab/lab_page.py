"""The page itself: the lab file and its results at the top, a row for each cell below."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QVBoxLayout, QWidget

from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError, printable
from edgeopt.events import Event, Update
from edgeopt.views import words
from edgeopt_gui.actions.action import Face
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.base import Page
from edgeopt_gui.pages.optimize.handing import open_report
from edgeopt_gui.pages.optimize.slow import slow
from edgeopt_gui.widgets import dialogs
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.elided_label import ElidedLabel
from edgeopt_gui.widgets.heading import keep_room, quiet
from edgeopt_gui.widgets.message_bar import MessageBar
from edgeopt_gui.widgets.records import Column, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

if TYPE_CHECKING:
    from edgeopt.lab.records import LabCell, LabResults

_FILES = "Lab files (*.toml);;All files (*)"
_EMPTY = "A lab searches for several models on several devices. Its file names both; docs/lab.md has an example."
_UPDATE = "lab-cell"


def _speed_text(cell: "LabCell") -> str:
    from edgeopt.views.lab import cell_text

    return cell_text(cell) if cell.status == "done" else ""


def state_text(cell: "LabCell") -> str:
    if cell.status == "done":
        return cell.race.sentence if cell.race is not None else "kept" if cell.kept else cell.verdict or "done"
    if cell.status == "running":
        return printable(cell.phase) or "running"
    return f"failed: {printable(cell.reason)}" if cell.reason else cell.status


def _stands_out(cell: "LabCell") -> bool:
    return cell.status == "failed" or (cell.race is not None and cell.race.state == "broken")


COLUMNS: tuple[Column["LabCell"], ...] = (
    Column("Model", lambda cell: printable(cell.model), cut_middle=True, firm_letters=12),
    Column("Device", lambda cell: printable(cell.device), cut_middle=True, firm_letters=12),
    Column(
        "Speed-up",
        lambda cell: None if cell.speedup is None else cell.speedup.median,
        _speed_text,
        align="right",
        firm_letters=20,
        title_tip="Speed relative to plain ONNX Runtime on the same device, with its interval",
    ),
    Column(
        "Accuracy",
        lambda cell: cell.accuracy_db,
        lambda cell: words.decibels(cell.accuracy_db) if cell.status == "done" else "",
        align="right",
    ),
    Column(
        "Peak memory",
        lambda cell: cell.peak_bytes,
        lambda cell: words.size(cell.peak_bytes) if cell.status == "done" else "",
        align="right",
        optional=True,
    ),
    Column("State", state_text, tip=state_text, stretch=True, quiet=lambda cell: cell.status == "waiting"),
)


class LabPage(Page):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.lab: Path | None = None
        self.folder: Path | None = None
        """Folder of the results."""
        self._results: LabResults | None = None
        self._job: Job | None = None
        self._report: Job | None = None
        self._background = Background(self)
        self.rows: RecordsModel[LabCell] = RecordsModel(
            COLUMNS,
            lambda cell: (cell.model, cell.device),
            lambda cell: "strong" if _stands_out(cell) else "plain",
        )
        self.table = RecordsTable(self.rows, "Cells of the lab")
        self.table.picked.connect(self._show_cell)
        self.table.chosen.connect(lambda _: self.report() if not self.why_not_report() else None)
        self.place, self.summary, self.detail = ElidedLabel(), QLabel(wordWrap=True), quiet()
        self.bar = QProgressBar(textVisible=False)
        self.bar.setAccessibleName("Progress of the lab")
        self.message = MessageBar()
        self.message.details_requested.connect(context.report)
        self.set_content(self._laid_out())
        self._show()

    # Actions

    def start(self) -> None:
        if (command := self.command()) is None:
            return
        self.message.hide()
        self._job = job = self.context.jobs.run(command)
        job.event_received.connect(self.take_event)
        job.ended.connect(self._ended)
        self._show()

    def why_not_start(self) -> str:
        if self._job is not None:
            return "The lab is running."
        return "No lab file is open." if self.lab is None else self.context.why_not_measure_device()

    def face_of_start(self) -> Face | None:
        left = any(cell.status != "done" for cell in self.rows.rows)
        return Face("Continue the run") if left and self._job is None else None

    def cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()
            self._show()

    def why_not_cancel(self) -> str:
        if self._job is None:
            return "No lab is running."
        return "The run is stopping already." if self._job.cancelled else ""

    def why_not_open(self) -> str:
        return "The lab is running; cancel it first." if self._job is not None else ""

    def choose_lab(self) -> None:
        if (path := dialogs.choose_file(self, "Open a lab file", _FILES, "lab")) is not None:
            self.open_lab(path)

    def choose_results(self) -> None:
        if (path := dialogs.choose_folder(self, "Choose the folder of the results", "lab-results")) is not None:
            self.open_results(path)

    def report(self) -> None:
        """Writes the report of the selected cell's bundle beside it, and opens it."""
        if (bundle := self._bundle) is None:
            return
        file = bundle.with_suffix(".html")
        # To measure the nodes would disturb the searches.
        calm = () if self._job is None else ("--no-nodes",)
        command = Command(f"Reporting on {bundle.name}", ("report", str(bundle), "-o", str(file), *calm))
        self._report = self.context.jobs.run(command)
        self._report.ended.connect(lambda ending: self._reported(ending, file))
        self.context.changed.emit()

    def why_not_report(self) -> str:
        if self._report is not None:
            return "A report is being written."
        return "" if self._bundle is not None else "No cell with a bundle is selected."

    # Files

    def open_lab(self, lab: Path) -> None:
        """Opens a lab file; its results are in the folder `results` beside it, unless another one is chosen."""
        self.lab = lab
        self.open_results(lab.parent / "results")

    def open_results(self, folder: Path) -> None:
        """Shows results, or makes the folder that of the open lab file."""
        self.folder, self._results = folder, None
        self.message.hide()
        self.rows.set_rows(())
        self._read()

    def _read(self) -> None:
        folder = self.folder
        if folder is None or (self.lab is not None and not self._has_results):
            self.rows.set_rows(())
            self._show()
            return
        self._background.do(lambda: _read(folder), lambda found: self._take(folder, found))

    def take_drop(self, paths: list[Path]) -> bool:
        if len(paths) != 1 or self.why_not_open():
            return False
        (path,) = paths
        if path.suffix == ".toml":
            self.open_lab(path)
        elif (path / "results.json").is_file():
            self.open_results(path)
        else:
            return False
        return True

    # Requests of the window

    @property
    def state(self) -> str:
        found = super().state
        return "busy" if found == "content" and self._job is not None else found

    def watched(self) -> str:
        return self.lab.name if self.lab is not None else self.folder.name if self.folder is not None else ""

    def command(self) -> Command | None:
        if self.lab is None or self.folder is None:
            return None
        arguments = ("lab", "run", str(self.lab), "-o", str(self.folder))
        return Command(f"Running {self.lab.name}", arguments, alone=True)

    # Events

    def take_event(self, event: Event) -> None:
        """Shows the cell that an event of the run is about."""
        if not isinstance(event, Update) or event.kind != _UPDATE:
            return
        self.rows.put(msgspec.convert(event.data, thread_safe(slow("edgeopt.lab.records").LabCell)))
        self._show()

    def _ended(self, ending: Ending) -> None:
        self._job = None
        if not ending.good and ending.how != "cancelled":
            if not self._has_results:
                self.rows.set_rows(())
                self.show_error(ending, "lab.start", "lab.open")
                self.context.changed.emit()
                return
            self.message.show_ending(ending, "lab.start")
        self._read()

    def _take(self, folder: Path, found: "LabResults | EdgeoptError") -> None:
        if folder != self.folder or self._job is not None:
            return
        if isinstance(found, EdgeoptError):
            self.show_error(Ending("failed", {}, found.message, found.hint), "lab.results", "lab.open")
            self.context.changed.emit()
            return
        beside = folder.parent / found.lab
        if self.lab is None and beside.is_file():
            self.lab = beside
        self._results = found
        self.rows.set_rows(found.cells)
        self.table.fit()
        self._show()

    def _reported(self, ending: Ending, file: Path) -> None:
        self._report = None
        if ending.good:
            self.context.say(open_report(file))
        elif ending.how != "cancelled":
            self.message.show_ending(ending, "lab.report")
        self.context.changed.emit()

    # Display

    @property
    def _has_results(self) -> bool:
        return self.folder is not None and (self.folder / "results.json").exists()

    @property
    def _bundle(self) -> Path | None:
        """The bundle of the selected cell; None if there is none."""
        cell = self.table.current
        return self.folder / cell.bundle if cell is not None and cell.bundle and self.folder is not None else None

    def _show(self) -> None:
        cells, runs = self.rows.rows, self._job is not None
        self.place.set(f"{self.lab.name if self.lab else 'No lab file'} → {self.folder}", str(self.folder))
        done = sum(cell.status in {"done", "failed"} for cell in cells)
        self.bar.setRange(0, len(cells))
        self.bar.setValue(done)
        self.bar.setVisible(runs)
        if self._job is not None:
            stopping = "Stopping; finished cells are kept." if self._job.cancelled else ""
            self.summary.setText(stopping or f"Running: {done} of {len(cells)} cells ended.")
        elif self._results is not None:
            self.summary.setText(slow("edgeopt.views.lab").summary(self._results))
        self._show_cell(self.table.current)
        if cells:
            self.show_content()
        elif runs:
            self.show_busy(f"Starting {self.watched()}…", "lab.cancel")
        elif self.lab is not None and self.folder is not None:
            self.show_empty(f"{self.lab.name} has no results yet in {self.folder.name}.", "lab.start", "lab.open")
        else:
            self.show_empty(_EMPTY, "lab.open", "lab.results")
        self.context.changed.emit()

    def _show_cell(self, cell: "LabCell | None") -> None:
        texts = () if cell is None else (cell.summary, cell.reason, cell.hint)
        self.detail.setText(" ".join(printable(text) for text in texts if text))
        self.detail.setVisible(bool(self.detail.text()))
        self.context.changed.emit()

    def _laid_out(self) -> QWidget:
        content = QWidget()
        line = self.fontMetrics().height()
        head, column = QHBoxLayout(), QVBoxLayout(content)
        head.addWidget(self.summary, 1)
        head.addWidget(self.bar)
        head.addWidget(ActionButton("lab.report", text="Report"))
        keep_room(self.bar)
        column.setContentsMargins(line, line, line, line)
        column.setSpacing(line // 2)
        column.addWidget(self.place)
        column.addLayout(head)
        column.addWidget(self.message)
        column.addWidget(self.table, 1)
        column.addWidget(self.detail)
        return content


def _read(folder: Path) -> "LabResults":
    found: LabResults = slow("edgeopt.lab.records").read_results(folder)
    slow("edgeopt.views.lab")  # which the first row needs
    return found
