"""The page Model: what a model is made of, costs and could gain, and of a bundle what runs and what was proved."""

from pathlib import Path

import msgspec
from PySide6.QtGui import QGuiApplication

from edgeopt import events
from edgeopt.decoding import thread_safe
from edgeopt.graph.analysis import Analysis, NodeRow
from edgeopt_gui.actions.action import Action
from edgeopt_gui.context import Context
from edgeopt_gui.imports.choices import ImportChoices, ending_in_the_app
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.pages.model.content import ModelContent
from edgeopt_gui.pages.model.node_feed import NodeFeed
from edgeopt_gui.subject import Subject

_NO_MODEL = "No model is open."
_OPEN = "app.open-model"
_LOOKING = "Checking passes and runtimes…"
_WAITS = "Passes and runtimes are checked when nothing else runs, so that no measurement is disturbed."
_WAITS_FOR_WATCH = (
    "Waiting for a watch that runs until it is stopped: {}. The check uses all cores. "
    "Starting it now pauses the watch; the Live page resumes it."
)
_AGAIN = "F5 tries again."


class ModelPage(Page):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.analysis: Analysis | None = None
        self._job: Job | None = None
        self._import: Job | None = None
        self._choices: ImportChoices | None = None
        """The choices of an import that is running or has failed."""
        self._findings: Job | None = None
        """The job that searches for opportunities, while the content of the file is shown already."""
        self._searched = False
        """Whether that search has ended, be it with a failure."""
        self._seen = False
        self._feed = NodeFeed(self)
        self._subject_changed()  # first: a child process reads the model while this one makes the widgets
        self.view = ModelContent()
        self.view.copied.connect(self._copy)
        self.set_content(self.view)
        self._feed.ready.connect(self._show_nodes)
        self.view.nodes.table.picked.connect(self._picked)
        context.node_picked.connect(self.view.nodes.pick)
        context.subject_changed.connect(self._subject_changed)
        context.import_requested.connect(self.import_model)
        context.times_changed.connect(lambda: self.view.show_times(context.nodes, context.op_times))
        context.device_measured.connect(lambda _: self._with_new_peaks())
        context.jobs.started.connect(self._job_started)
        context.jobs.ended.connect(self._look_deeper)

    def command(self) -> Command | None:
        return self._choices.command if self._choices is not None else self._read()

    def _read(self) -> Command | None:
        subject = self.context.subject
        if subject is None:
            return None
        return Command(f"Reading {subject.name}", ("analyze", str(subject.path)))

    def analyze(self) -> None:
        """Analyzes the file quickly; the search for opportunities and the check of runtimes follow."""
        command = self._read()
        if command is None:
            return
        self._forget()
        self.show_busy(f"{command.title}…")
        quick = Command(command.title, (*command.arguments, "--quick"))
        job = self._job = self.context.jobs.run(quick)
        job.ended.connect(lambda ending: self._analyzed(job, ending))
        self.context.changed.emit()

    def import_model(self, choices: ImportChoices) -> None:
        """Runs an import; its model and samples replace those of the app when it has succeeded."""
        self._forget()
        self._choices = choices
        job = self._import = self.context.jobs.run(choices.command)
        self.show_busy(f"{job.command.title}…", "model.cancel-import")
        job.event_received.connect(lambda event: self._show_import(job, event))
        job.ended.connect(lambda ending: self._imported(job, choices, ending))
        self.context.changed.emit()

    def cancel_import(self) -> None:
        if self._import is not None:
            self._import.cancel()

    def why_not_cancel_import(self) -> str:
        return "" if self._import is not None else "No import is running."

    def import_again(self) -> None:
        self.context.import_dialog_requested.emit(self._choices)

    def why_not_import_again(self) -> str:
        if self._import is not None:
            return "The import is running."
        return "" if self._choices is not None else "No import has failed."

    def _show_import(self, job: Job, event: events.Event) -> None:
        if job is self._import and isinstance(event, events.Progress):
            self.show_busy(f"{job.command.title}: {event.phase} · {event.message}", "model.cancel-import")

    def _imported(self, job: Job, choices: ImportChoices, ending: Ending) -> None:
        if job is not self._import:
            return
        self._import = None
        if ending.good:
            self.context.open(Subject(Path(choices.out), "model"))
            self.context.use_data(choices.samples)
            self.context.say(f"Imported {choices.name} as {choices.out}; the data is {choices.samples.name}.")
        elif ending.how == "cancelled":
            self._subject_changed()
            self.context.say("Import cancelled; no model was written.")
        else:
            self.show_error(ending_in_the_app(ending), "model.import-again", _OPEN)
        self.context.changed.emit()

    def why_not_analyze(self) -> str:
        if self.context.subject is None:
            return _NO_MODEL
        return "The model is being read." if self._job or self._findings else ""

    def why_not_known(self) -> str:
        if self.context.subject is None:
            return _NO_MODEL
        return "" if self.analysis is not None else "The model has not been read yet."

    def search(self) -> None:
        self.view.begin_search()

    def copy_digest(self) -> None:
        if self.analysis is not None:
            self._copy(self.analysis.digest)

    def optimize(self) -> None:
        self.context.go("optimize")

    def why_not_optimize(self) -> str:
        subject = self.context.subject
        if subject is not None and subject.kind == "bundle":
            return "A bundle is optimized already; open the model that it was made from to search again."
        return self.why_not_known()

    def watch(self) -> None:
        if self.context.subject is not None:
            self.context.watch(self.context.subject.path)

    def _subject_changed(self) -> None:
        self._forget()
        if self.context.subject is None:
            self.show_empty("Open a model or a bundle, or drop one here.", _OPEN)
        else:
            self.analyze()

    def _with_new_peaks(self) -> None:
        """Analyzes the model again, because the least time depends on the device's peaks."""
        if self.context.subject is not None:
            self.analyze()

    def entered(self) -> None:
        self._seen = True
        self._look_deeper()

    def left(self) -> None:
        self._seen = False

    def _forget(self) -> None:
        """Clears results and cancels jobs, which belong to another subject or to an older state of its file."""
        self.analysis = None
        self.context.use_inputs(None)
        self.context.use_nodes(None)
        self._searched = False
        self._choices = None
        self._feed.stop()
        for job in (self._job, self._findings, self._import):
            if job is not None:
                job.cancel()
        self._job = self._findings = self._import = None

    def _analyzed(self, job: Job, ending: Ending) -> None:
        if job is not self._job:
            return
        self._job = None
        if ending.good:
            self.view.show_analysis(self._take(ending))
            self.show_content()
            self._look_deeper()
        else:
            self.show_error(ending, "model.analyze", _OPEN)
            self.context.use_nodes(None, failure=ending)
        self.context.changed.emit()

    def _look_deeper(self) -> None:
        """Starts the search for opportunities if the page was seen and no job runs, as it loads all cores."""
        command = self._read()
        if command is None or self.analysis is None or self._searched or not self._seen or self._findings:
            return
        if self.context.jobs.jobs:
            self._say_what_for()
        else:
            self._look(Command(f"Analyzing {self.analysis.name}", command.arguments))

    def _look(self, command: Command) -> None:
        self.view.say(_LOOKING)
        job = self._findings = self.context.jobs.run(command)
        job.ended.connect(lambda ending: self._found(job, ending))

    def look_now(self) -> None:
        """Starts the search for opportunities now; the running watch stops for it."""
        command = self._read()
        if command is not None and self.analysis is not None:
            self._look(Command(f"Analyzing {self.analysis.name}", command.arguments, alone=True))
            self.context.changed.emit()

    def why_not_look_now(self) -> str:
        if self._searched or self._findings:
            return "The opportunities are known or being determined."
        return self.why_not_known() or ("" if self._watch else "No watch delays it.")

    @property
    def _watch(self) -> str:
        """Title of the running watch; "" if none runs, or also a job that will end."""
        running = [job.command for job in self.context.jobs.jobs if not job.cancelled]
        return running[-1].title if running and all(command.watches for command in running) else ""

    def _say_what_for(self) -> None:
        """Shows why the search for opportunities has not started."""
        if self._watch:
            self.view.say(_WAITS_FOR_WATCH.format(self._watch), "model.look-now")
        else:
            self.view.say(_WAITS)

    def _found(self, job: Job, ending: Ending) -> None:
        if job is not self._findings:
            return
        self._findings = None
        self._searched = True
        if ending.good:
            self.view.show_findings(self._take(ending))
        else:
            self.view.say(f"{ending.what} {ending.next_step}\n{_AGAIN}")
        self.context.changed.emit()

    def _take(self, ending: Ending) -> Analysis:
        """Stores the analysis without its nodes, which follow a few at a time, because there may be many."""
        self.analysis = msgspec.convert({**ending.data, "nodes": ()}, thread_safe(Analysis))
        self.context.use_inputs(self.analysis.inputs)
        self._feed.start(ending.data["nodes"])
        return self.analysis

    def _show_nodes(self, nodes: list[NodeRow]) -> None:
        self.view.show_nodes(nodes)
        self.context.use_nodes(self.analysis, nodes)

    def _picked(self, node: NodeRow | None) -> None:
        if node is not None:
            self.context.node_picked.emit(node.position)

    def _job_started(self, job: Job) -> None:
        """Cancels the search for opportunities when another job starts."""
        looking = self._findings
        if looking is not None and job is not looking:
            self._findings = None
            looking.cancel()
            self._say_what_for()

    def _copy(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.context.say(f"Copied: {text}")


ENTRY = Entry(
    "model",
    "Model",
    "model",
    ModelPage,
    (
        Action(
            "model.optimize",
            "Optimize this model",
            "Model",
            ModelPage.optimize,
            why_not=ModelPage.why_not_optimize,
            icon="optimize",
            primary=True,
        ),
        Action(
            "model.live",
            "Watch it live",
            "Model",
            ModelPage.watch,
            why_not=ModelPage.why_not_known,
            icon="live",
        ),
        Action(
            "model.analyze",
            "Read the model again",
            "Model",
            ModelPage.analyze,
            why_not=ModelPage.why_not_analyze,
            shortcut="F5",
            icon="refresh",
            command=ModelPage.command,
        ),
        Action(
            "model.look-now",
            "Find opportunities now",
            "Model",
            ModelPage.look_now,
            why_not=ModelPage.why_not_look_now,
            command=ModelPage.command,
        ),
        Action(
            "model.cancel-import",
            "Cancel the import",
            "Model",
            ModelPage.cancel_import,
            why_not=ModelPage.why_not_cancel_import,
            icon="cancel",
        ),
        Action(
            "model.import-again",
            "Change the import…",
            "Model",
            ModelPage.import_again,
            why_not=ModelPage.why_not_import_again,
        ),
        Action(
            "model.filter",
            "Search the nodes",
            "Model",
            ModelPage.search,
            why_not=ModelPage.why_not_known,
            shortcut="Ctrl+F",
            icon="search",
        ),
        Action(
            "model.copy-digest",
            "Copy the digest",
            "Model",
            ModelPage.copy_digest,
            why_not=ModelPage.why_not_known,
            icon="copy",
            command=ModelPage.command,
        ),
    ),
    "Open a model or drop it on the window, and inspect it.",
)
