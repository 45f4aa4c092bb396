"""The page Graph: the open model as a diagram, coloured by what each node is, costs or takes."""

from pathlib import Path as FilePath

import msgspec
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QImage, QPainter, QPalette

from edgeopt.diagram.levels import Path
from edgeopt.diagram.scene import Diagram, Layout, Scene, diagram_of, opened_at_first
from edgeopt.diagram.svg import svg
from edgeopt.errors import EdgeoptError
from edgeopt.graph.analysis import NodeRow, OpTimes
from edgeopt_gui.actions.action import Action
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.pages.graph.content import GraphContent
from edgeopt_gui.widgets import dialogs

_OPEN = "app.open-model"
_NO_MODEL = "No model is open."
_PICTURES = "SVG pictures (*.svg);;PNG pictures (*.png)"
_MOST_PIXELS = 12_000
"""Of the longer side of an exported PNG."""


class GraphPage(Page):
    MEASURES = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.view = GraphContent()
        self.set_content(self.view)
        self.opened: frozenset[Path] = frozenset()
        self.scene: Scene | None = None
        self._layout: Layout | None = None
        self._nodes: tuple[NodeRow, ...] = ()
        self._digest = ""
        self._times: tuple[OpTimes, ...] = ()
        self._job: Job | None = None
        self._background = Background(self)
        self._turn = 0
        """Counts layouts: what comes late is for a state that nobody wants any more."""
        self._placed = False
        self.view.canvas.toggled.connect(self._toggle)
        self.view.canvas.picked.connect(self._picked)
        self.view.reveal_wanted.connect(self.reveal)
        context.nodes_changed.connect(self._nodes_changed)
        context.node_picked.connect(self._pick)
        self._nodes_changed()

    def command(self) -> Command | None:
        subject = self.context.subject
        if subject is None:
            return None
        data = ("--data", str(self.context.data)) if self.context.data is not None else ()
        arguments = ("analyze", str(subject.path), "--profile-ops", *data)
        return Command(f"Measuring the nodes of {subject.name}", arguments, alone=True)

    def key_to_measure(self) -> str:
        return "graph.measure"

    # What the actions do

    def measure(self) -> None:
        command = self.command()
        if command is None:
            return
        job = self._job = self.context.jobs.run(command)
        job.ended.connect(lambda ending: self._measured(job, ending))
        self.context.changed.emit()

    def why_not_measure(self) -> str:
        if self._job is not None:
            return "The nodes are being measured."
        return self.why_no_graph() or self.context.why_not_measure_device()

    def why_no_graph(self) -> str:
        if self.context.subject is None:
            return _NO_MODEL
        return "" if self.scene is not None else "The model has not been read yet."

    def begin_search(self) -> None:
        self.view.search.setFocus()
        self.view.search.selectAll()

    def fit(self) -> None:
        self.view.canvas.fit()

    def open_all(self) -> None:
        if self._layout is not None:
            self._lay_out(frozenset(self._layout.diagram.groups()))

    def fold_all(self) -> None:
        self._lay_out(frozenset())

    def show_in_table(self) -> None:
        self.context.go("model")

    def why_not_in_table(self) -> str:
        return self.why_no_graph() or ("" if self._position() is not None else "No node is selected.")

    def export(self) -> None:
        subject = self.context.subject
        name = f"{subject.path.stem}.svg" if subject is not None else "graph.svg"
        path = dialogs.choose_save(self, "Export the graph", _PICTURES, "picture", name)
        if path is not None:
            self.write_picture(path if path.suffix else path.with_suffix(".svg"))

    def write_picture(self, path: FilePath) -> None:
        """As SVG or PNG, by the ending of the name."""
        diagram, scene, colouring = self.view.diagram, self.scene, self.view.colouring
        if diagram is None or scene is None or colouring is None:
            return
        try:
            if path.suffix.lower() == ".png":
                if not self._picture(scene).save(str(path)):
                    raise OSError(f"'{path.parent}' cannot be written to")
            else:
                path.write_text(svg(diagram, scene, colouring, self._title()), encoding="utf-8")
        except OSError as error:
            reason = f"The picture cannot be written: {error}."
            self.context.report(Ending("failed", {}, reason, "Choose another folder."))
        else:
            self.context.say(f"Written: {path.name}")

    def reveal(self, path: Path) -> None:
        """Opens the groups around an item and selects it."""
        around = {path[:depth] for depth in range(1, len(path))}
        self._lay_out(self.opened | around, then=path)

    # What happens

    def entered(self) -> None:
        if self.scene is not None and not self._placed:
            self._placed = True
            self.view.canvas.begin()

    def _nodes_changed(self) -> None:
        context = self.context
        if context.subject is None:
            self._forget()
            self.show_empty("Open a model or a bundle to see its graph.", _OPEN)
        elif context.read_failure is not None:
            self._forget()
            self.show_error(context.read_failure, "model.analyze", _OPEN)
        elif context.analysis is None:
            self._forget()
            self.show_busy(f"Reading {context.subject.name}…")
        else:
            self._build(context.analysis.digest)

    def _build(self, digest: str) -> None:
        """Another model; or the same, of which more is known now: then what is open stays open."""
        analysis, nodes = self.context.analysis, self.context.nodes
        if analysis is None or nodes == self._nodes:
            return
        same = digest == self._digest and len(nodes) == len(self._nodes)
        self._nodes, self._digest = nodes, digest
        if not same:
            self._times = ()
            self.show_busy(f"Laying out {analysis.name}…")
        opened = self.opened if same else None
        self._turn += 1
        turn = self._turn
        self._background.do(
            lambda: _laid_out(diagram_of(nodes, analysis.inputs, analysis.outputs), opened),
            lambda made: self._built(turn, made, same),
        )

    def _built(self, turn: int, made: "_Made | EdgeoptError", same: bool) -> None:
        if turn != self._turn or isinstance(made, EdgeoptError):
            return
        self._layout, self.opened = made.layout, made.opened
        self.view.set_diagram(made.layout.diagram, self._times)
        self._show(made.scene, None)
        if not same:
            self._placed = self.isVisible()
            self.show_content()
            self.view.canvas.begin()
        self.context.changed.emit()

    def _toggle(self, path: Path) -> None:
        is_open = path in self.opened
        opened = frozenset(each for each in self.opened if each[: len(path)] != path) if is_open else {
            *self.opened, path
        }  # fmt: skip
        self._lay_out(frozenset(opened), keep=path)

    def _lay_out(self, opened: frozenset[Path], keep: Path | None = None, then: Path | None = None) -> None:
        layout = self._layout
        if layout is None:
            return
        self._turn += 1
        turn = self._turn

        def show(made: "_Made | EdgeoptError") -> None:
            if turn == self._turn and not isinstance(made, EdgeoptError):
                self.opened = made.opened
                self._show(made.scene, keep)
                if then is not None:
                    self.view.canvas.select(then)

        self._background.do(lambda: _Made(layout, opened, layout.scene(opened)), show)

    def _show(self, scene: Scene, keep: Path | None) -> None:
        self.scene = scene
        self.view.show_scene(scene, keep)

    def _forget(self) -> None:
        self._turn += 1
        self.scene = self._layout = None
        self._nodes, self._digest, self._times = (), "", ()
        self.view.forget()
        if self._job is not None:
            self._job.cancel()
            self._job = None

    def _measured(self, job: Job, ending: Ending) -> None:
        if job is not self._job:
            return
        self._job = None
        if ending.good:
            self._times = msgspec.convert(ending.data["op_times"], tuple[OpTimes, ...])
            self.view.set_times(self._times)
            failed = [f"{each.backend}: {each.reason}" for each in self._times if each.reason]
            self.context.say("; ".join(failed) if failed else "The nodes were measured.")
        elif ending.how != "cancelled":
            self.context.report(ending)
        self.context.changed.emit()

    def _pick(self, position: int) -> None:
        if self.scene is not None and position != self._position():
            self.view.pick(position)

    def _picked(self, _path: Path | None) -> None:
        position = self._position()
        if position is not None:
            self.context.node_picked.emit(position)
        self.context.changed.emit()

    def _position(self) -> int | None:
        canvas = self.view.canvas
        return canvas.walk.position(canvas.selected) if canvas.walk and canvas.selected else None

    def _title(self) -> str:
        return self.context.subject.name if self.context.subject is not None else ""

    def _picture(self, scene: Scene) -> QImage:
        margin = 80.0
        scale = min(2.0, _MOST_PIXELS / max(scene.width + margin, scene.height + margin))
        size = QSize(round((scene.width + margin) * scale), round((scene.height + margin) * scale))
        image = QImage(size, QImage.Format.Format_RGB32)
        image.fill(self.palette().color(QPalette.ColorRole.Base))
        painter = QPainter(image)
        self.view.canvas.picture(painter, QRectF(image.rect()))
        painter.end()
        return image


class _Made(msgspec.Struct, frozen=True):
    layout: Layout
    opened: frozenset[Path]
    scene: Scene


def _laid_out(diagram: Diagram, opened: frozenset[Path] | None) -> _Made:
    layout = Layout(diagram)
    chosen = opened_at_first(diagram) if opened is None else opened
    return _Made(layout, chosen, layout.scene(chosen))


ENTRY = Entry(
    "graph",
    "Graph",
    "graph",
    GraphPage,
    (
        Action(
            "graph.measure",
            "Measure the nodes",
            "Graph",
            GraphPage.measure,
            why_not=GraphPage.why_not_measure,
            icon="chart",
            command=GraphPage.command,
            primary=True,
        ),
        Action(
            "graph.fit",
            "Show the whole graph",
            "Graph",
            GraphPage.fit,
            why_not=GraphPage.why_no_graph,
            shortcut="Ctrl+0",
            icon="fit",
        ),
        Action(
            "graph.open-all", "Open all groups", "Graph", GraphPage.open_all, why_not=GraphPage.why_no_graph,
            icon="chevron-down",
        ),
        Action(
            "graph.fold-all", "Fold all groups", "Graph", GraphPage.fold_all, why_not=GraphPage.why_no_graph,
            icon="chevron-up",
        ),
        Action(
            "graph.find",
            "Search the graph",
            "Graph",
            GraphPage.begin_search,
            why_not=GraphPage.why_no_graph,
            shortcut="Ctrl+Shift+F",
            icon="search",
        ),
        Action(
            "graph.in-table",
            "Show the node in the table",
            "Graph",
            GraphPage.show_in_table,
            why_not=GraphPage.why_not_in_table,
            shortcut="Ctrl+T",
            icon="table",
        ),
        Action(
            "graph.export",
            "Export the graph…",
            "Graph",
            GraphPage.export,
            why_not=GraphPage.why_no_graph,
            icon="export",
        ),
    ),
)  # fmt: skip
