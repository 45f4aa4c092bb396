"""The state that all pages share (subject, data, jobs, settings), and the signals with requests to the window."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from edgeopt.graph.analysis import Analysis, NodeRow, OpTimes, TensorFacts
from edgeopt_gui.garbage import GarbageTimer
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.quiet import QuietWatch
from edgeopt_gui.settings import Settings
from edgeopt_gui.subject import Subject

if TYPE_CHECKING:
    from edgeopt_gui.imports.choices import ImportChoices

MEASURE_DEVICE = Command("Measuring the device", ("probe", "--deep", "--again"))


@dataclass(frozen=True, slots=True)
class ComparePair:
    """Two models or bundles that the page Compare is to compare, and the input data for both."""

    first: Path
    second: Path
    data: Path | None


@dataclass(frozen=True, slots=True)
class GraphPair:
    """A node of the open model that the page Graph is to show, and the model to compare it with."""

    position: int
    other: Path


class Context(QObject):
    subject_changed = Signal()
    """Emitted when a subject is opened, even if it is the same one again."""
    data_changed = Signal()
    inputs_changed = Signal()
    """Emitted when the inputs of the subject were read, or are unknown again."""
    nodes_changed = Signal()
    """Emitted when the nodes of the subject were read, cannot be read, or are unknown again."""
    node_picked = Signal(int)
    """The position of the node that the user looks at, on any page."""
    times_changed = Signal()
    """Emitted when the nodes of the subject were measured, or their times are unknown again."""
    bundle_changed = Signal()
    """Emitted when a search has made a bundle, or one was opened."""
    changed = Signal()
    """Emitted when actions may have become possible or impossible; the window then asks each of them."""
    page_requested = Signal(str)
    watch_requested = Signal(object)
    """The path of a model or bundle that is to be watched at once."""
    agent_requested = Signal(str)
    """The address of an agent that is to be watched at once."""
    import_requested = Signal(object)
    """The `ImportChoices` of an import that is to start at once."""
    import_dialog_requested = Signal(object)
    """The `ImportChoices` that the user wants to change before another try."""
    compare_requested = Signal(object)
    """The `ComparePair` that is to be compared at once."""
    graph_requested = Signal(object)
    """The `GraphPair` that is to be shown."""
    device_measured = Signal(object)
    """The good `Ending` of `edgeopt probe --deep`."""
    status_message = Signal(str)
    """A short sentence for the status bar."""
    failed = Signal(object)
    """An `Ending` that no page shows inline; the window opens a dialog."""

    def __init__(self, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.settings = settings
        self.jobs = JobRunner(self)
        self.quiet = QuietWatch(self)
        GarbageTimer(self)
        self.subject: Subject | None = None
        self.data: Path | None = None
        self.inputs: tuple[TensorFacts, ...] | None = None
        """Inputs of the subject; None while they are unknown."""
        self.bundle: Path | None = None
        self.analysis: Analysis | None = None
        """Analysis of the subject, without its nodes; None while it is unknown."""
        self.nodes: tuple[NodeRow, ...] = ()
        self.op_times: tuple[OpTimes, ...] = ()
        """Measured times of the nodes; empty while they are unknown."""
        self.read_failure: Ending | None = None
        """The failure if the subject could not be read."""

    def open(self, subject: Subject | None) -> None:
        """Makes it the app's subject; every page shows it or its absence."""
        other = self.subject is None or subject is None or subject.path != self.subject.path
        self.subject = subject
        if subject is not None:
            self.settings.remember(subject.path)
            if subject.kind == "bundle":
                self.use_bundle(subject.path)
        if other and self.data is not None:
            self.data = None
            self.data_changed.emit()
        self.subject_changed.emit()
        self.changed.emit()

    def use_data(self, path: Path | None) -> None:
        self.data = path
        self.data_changed.emit()
        self.changed.emit()

    def use_inputs(self, inputs: tuple[TensorFacts, ...] | None) -> None:
        if inputs != self.inputs:
            self.inputs = inputs
            self.inputs_changed.emit()

    def use_nodes(
        self, analysis: Analysis | None, nodes: Sequence[NodeRow] = (), failure: Ending | None = None
    ) -> None:
        self.analysis, self.nodes, self.read_failure = analysis, tuple(nodes), failure
        self.nodes_changed.emit()

    def use_times(self, times: Sequence[OpTimes]) -> None:
        if tuple(times) != self.op_times:
            self.op_times = tuple(times)
            self.times_changed.emit()

    def use_bundle(self, path: Path | None) -> None:
        """Makes it the bundle that is watched live and deployed."""
        self.bundle = path
        self.bundle_changed.emit()
        self.changed.emit()

    def go(self, page: str) -> None:
        self.page_requested.emit(page)

    def watch(self, path: Path) -> None:
        """Shows the page Live, and runs the open model or the latest bundle there."""
        self.go("live")
        self.watch_requested.emit(path)

    def watch_agent(self, url: str) -> None:
        """Shows the page Live, and connects it to the agent."""
        self.go("live")
        self.agent_requested.emit(url)

    def import_model(self, choices: "ImportChoices") -> None:
        """Shows the page Model, and imports there."""
        self.go("model")
        self.import_requested.emit(choices)

    def compare(self, pair: ComparePair) -> None:
        """Shows the page Compare, and starts there."""
        self.go("compare")
        self.compare_requested.emit(pair)

    def show_in_graph(self, pair: GraphPair) -> None:
        """Shows the page Graph, with both models there."""
        self.go("graph")
        self.graph_requested.emit(pair)

    def measure_device(self) -> None:
        self.jobs.run(MEASURE_DEVICE).ended.connect(self._measured)
        self.changed.emit()

    def why_not_measure_device(self) -> str:
        measuring = next((job.command.title for job in self.jobs.jobs if job.command.measures), "")
        return f"It would disturb a measurement: {measuring}." if measuring else ""

    def _measured(self, ending: Ending) -> None:
        if ending.good:
            self.device_measured.emit(ending)
        elif ending.how != "cancelled":
            self.report(ending)

    def say(self, sentence: str) -> None:
        self.status_message.emit(sentence)

    def report(self, ending: Ending) -> None:
        self.failed.emit(ending)
