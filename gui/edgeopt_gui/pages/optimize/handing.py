"""Commands that use the bundle of a finished search: report, export and reproduction."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from edgeopt.views.words import decibels
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.optimize.in_the_app import ending_in_the_app
from edgeopt_gui.pages.optimize.run import Run


class Handing(QObject):
    note_changed = Signal(object)
    """The `Run` whose note has changed."""

    def __init__(self, context: Context, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._job: Job | None = None

    @property
    def busy(self) -> bool:
        return self._job is not None

    def report(self, run: Run, file: Path) -> None:
        """Writes it, and shows it in whatever reads such files."""
        arguments = ("report", str(run.bundle), "-o", str(file), "--model", str(run.model))
        self._do(run, Command(f"Reporting on {run.model.name}", arguments), lambda _: open_report(file), "report")

    def export(self, run: Run, format_name: str, folder: Path) -> None:
        """Exports the bundle to a new folder."""
        arguments = ("export", str(run.bundle), "--to", format_name, "-o", str(folder))
        self._do(run, Command(f"Exporting {run.model.name}", arguments), _exported, "export-as")

    def replay(self, run: Run, bundle: Path) -> None:
        """Rebuilds it from its profile and the source model, without searching."""
        arguments = ("replay", str(run.bundle), str(run.model), "-o", str(bundle))
        self._do(run, Command(f"Rebuilding {run.model.name}", arguments), _rebuilt, "replay")

    def _do(self, run: Run, command: Command, describe: Callable[[dict[str, Any]], str], action: str) -> None:
        self._job = self._context.jobs.run(command)
        self._job.ended.connect(lambda ending: self._ended(run, ending, describe, f"optimize.{action}"))
        self._say(run, f"{command.title}…")

    def _ended(self, run: Run, ending: Ending, describe: Callable[[dict[str, Any]], str], retry: str) -> None:
        self._job = None
        if ending.good:
            self._say(run, describe(ending.data))
            self._context.say(run.note)
        else:
            here = ending_in_the_app(ending)
            self._say(run, f"{here.what} {here.next_step}".strip(), "" if ending.how == "cancelled" else retry)

    def _say(self, run: Run, sentence: str, retry: str = "") -> None:
        run.note, run.retry = sentence, retry
        self.note_changed.emit(run)


def open_report(file: Path) -> str:
    """Opens a written report in the program that is registered for it; returns a sentence about it."""
    if QDesktopServices.openUrl(QUrl.fromLocalFile(str(file))):
        return f"The report is {file}."
    return f"The report is {file}; no program is registered to open it."


def _exported(data: dict[str, Any]) -> str:
    sentences = [f"Exported to {data['out']}."]
    if data.get("not_checked"):
        sentences.append(f"Not checked: {data['not_checked']}")
    elif data.get("samples"):
        sentences.append(f"Checked on the golden samples: {decibels(data.get('accuracy_db'))}.")
    return " ".join([*sentences, "Its README.md says how to use it."])


def _rebuilt(data: dict[str, Any]) -> str:
    sentences = [f"Rebuilt as {data['bundle']}, without searching."]
    if data.get("same_files"):
        sentences.append("The model's files are the same, byte for byte.")
    elif data.get("alike_db") is not None:
        sentences.append(f"Its golden outputs against the first ones: {decibels(data['alike_db'])}.")
    return " ".join(sentences)
