"""The page Graph itself; `page` has its actions."""

from pathlib import Path as FilePath

import msgspec

from edgeopt.commands.graph.revisions import Revision
from edgeopt.diagram.colours import Side, change_colouring
from edgeopt.diagram.outline import Path
from edgeopt.diagram.scene import Layout, Level, Scene, diagram_of, level_at_first, opened_at
from edgeopt.errors import EdgeoptError
from edgeopt.graph.analysis import NodeRow, OpTimes
from edgeopt.graph.analysis.records import name_of
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context, GraphPair
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.base import Page
from edgeopt_gui.pages.graph.content import GraphContent
from edgeopt_gui.pages.graph.layouts import OpenedLayout, laid_out, path_of
from edgeopt_gui.pages.graph.pictures import text_of, write_png
from edgeopt_gui.pages.graph.revision_job import RevisionJob
from edgeopt_gui.pages.model.tables import Weight
from edgeopt_gui.pages.model.tables import weights as weights_of
from edgeopt_gui.widgets import dialogs

_OPEN = "app.open-model"
_NO_MODEL = "No model is open."
_PICTURES = "Web pages (*.html);;SVG pictures (*.svg);;PNG pictures (*.png)"


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
        self._weights: dict[str, Weight] = {}
        self._job: Job | None = None
        self._background = Background(self)
        self._turn = 0
        """Counts layouts: what comes late is for a state that nobody wants any more."""
        self._placed = False
        self._revisions: tuple[Revision, ...] = ()
        self._at = 0
        """Which of the revisions is shown."""
        self._making = RevisionJob(context.jobs)
        self._beside: FilePath | None = None
        """The other model, where the revisions are two models."""
        self._first_node = ""
        """Which node of the open model is shown once the revisions are there."""
        self.view.revisions.chosen.connect(self.show_revision)
        self.view.revisions.closed.connect(self.leave_revisions)
        context.graph_wanted.connect(self.show_beside)
        self.view.canvas.toggled.connect(self._toggle)
        self.view.level_wanted.connect(self.show_level)
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

    def show_level(self, level: Level) -> None:
        if self._layout is not None:
            self._lay_out(opened_at(self._layout.diagram, level), level=level)

    def command_of_passes(self) -> Command | None:
        return self._command_of_revisions("Running the passes on", "--passes")

    def step_through_passes(self) -> None:
        self._beside = None
        self._make_revisions("Running the passes on", "--passes")

    def choose_other(self) -> None:
        path = dialogs.choose_file(self, "Compare with", dialogs.DEPLOYED, "model")
        if path is not None:
            self.compare_with(path)

    def compare_with(self, path: FilePath) -> None:
        self._beside = path
        self._make_revisions("Comparing", "--against", str(path))

    def show_beside(self, pair: GraphPair) -> None:
        """A node of the open model, coloured by what became of it in the other model; that is one step away."""
        name = name_of(self.context.nodes[pair.position])
        if self._beside == pair.other and self._making.running:
            self._first_node = name
            return
        if self._beside == pair.other and self._revisions:
            self.view.revisions.set_revisions(self._revisions, 0)
            self.show_revision(0, name)
            return
        if self._revisions:
            self.leave_revisions()
        self._pick(pair.position)
        if reason := self.why_no_revisions() or self.context.why_not_measure_device():
            self.context.say(f"{pair.other.name} is not shown beside it: {reason}")
            return
        self._first_node = name
        self.compare_with(pair.other)

    def why_no_revisions(self) -> str:
        if self._making.running:
            return "The other graphs are being created."
        return self.why_no_graph()

    def show_revision(self, at: int, node: str = "") -> None:
        """The selected node stays selected, and where it is on the screen; `node` is selected instead of it."""
        if not self._revisions:
            return
        revision, selected = self._revisions[at], node or self._selected_name()
        self._at = at
        self._turn += 1
        turn, before = self._turn, self.view.canvas.selected

        def show(made: "OpenedLayout | EdgeoptError") -> None:
            if turn != self._turn or isinstance(made, EdgeoptError):
                return
            self._layout, self.opened = made.layout, made.opened
            diagram = made.layout.diagram
            changes = None
            if revision.changes is not None:
                side: Side = "first" if revision.is_first else "second"
                changes = change_colouring(diagram.nodes, revision.changes, side)
            # Times and weights are those of the open model.
            times, weights = (self.context.op_times, self._weights) if at == 0 else ((), {})
            self.view.set_diagram(diagram, times, changes, weights)
            path = path_of(diagram, selected)
            self._show(made.scene, None if node else before, path)
            if node:
                self.view.canvas.select(path)
            self.context.changed.emit()

        self._background.do(
            lambda: laid_out(diagram_of(revision.nodes, revision.inputs, revision.outputs), None, selected), show
        )

    def leave_revisions(self) -> None:
        """Shows the open model alone again."""
        self._revisions, self._at = (), 0
        self.view.revisions.set_revisions(())
        nodes, self._nodes = self._nodes, ()
        if nodes and self.context.analysis is not None:
            self._build(self.context.analysis.digest)

    def show_in_table(self) -> None:
        self.context.go("model")

    def why_not_in_table(self) -> str:
        return self.why_no_graph() or ("" if self._position() is not None else "No node is selected.")

    def export(self) -> None:
        subject = self.context.subject
        name = f"{subject.path.stem}.html" if subject is not None else "graph.html"
        path = dialogs.choose_save(self, "Export the graph", _PICTURES, "picture", name)
        if path is not None:
            self.write_picture(path if path.suffix else path.with_suffix(".html"))

    def write_picture(self, path: FilePath) -> None:
        """As HTML, SVG or PNG, by the ending of the name."""
        subject, view, scene = self.context.subject, self.view, self.scene
        if subject is None or scene is None or view.diagram is None or view.colouring is None:
            return
        try:
            if path.suffix.lower() == ".png":
                write_png(path, view.canvas, scene)
            else:
                path.write_text(
                    text_of(path, subject.name, view.diagram, scene, view.colourings), encoding="utf-8"
                )
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
        """Another model; or the same one with new facts: then open parts stay open."""
        analysis, nodes = self.context.analysis, self.context.nodes
        if analysis is None or nodes == self._nodes or (self._revisions and digest == self._digest):
            return
        same = digest == self._digest and len(nodes) == len(self._nodes)
        self._nodes, self._digest = nodes, digest
        if not same:
            self.context.use_times(())
            self.show_busy(f"Laying out {analysis.name}…")
        opened = self.opened if same else None
        self._turn += 1
        turn = self._turn
        self._background.do(
            lambda: (
                laid_out(diagram_of(nodes, analysis.inputs, analysis.outputs), opened),
                {weight.row.name: weight for weight in weights_of(analysis, nodes)},
            ),
            lambda made: self._built(turn, made, same),
        )
        self.view.unread_weights = analysis.weights_summary.note

    def _built(
        self, turn: int, found: "tuple[OpenedLayout, dict[str, Weight]] | EdgeoptError", same: bool
    ) -> None:
        if turn != self._turn or isinstance(found, EdgeoptError):
            return
        made, self._weights = found
        self._layout, self.opened = made.layout, made.opened
        self.view.set_diagram(made.layout.diagram, self.context.op_times, weights=self._weights)
        self._show(made.scene, None)
        if not same:
            self._placed = self.isVisible()
            self.show_content()
            self.view.show_level(level_at_first(made.layout.diagram))
            self.view.canvas.begin()
        self.context.changed.emit()

    def _toggle(self, path: Path) -> None:
        is_open = path in self.opened
        opened = frozenset(each for each in self.opened if each[: len(path)] != path) if is_open else {
            *self.opened, path
        }  # fmt: skip
        self._lay_out(frozenset(opened), keep=path)

    def _lay_out(
        self,
        opened: frozenset[Path],
        keep: Path | None = None,
        then: Path | None = None,
        level: Level | None = None,
    ) -> None:
        layout = self._layout
        if layout is None:
            return
        self._turn += 1
        turn = self._turn

        def show(made: "OpenedLayout | EdgeoptError") -> None:
            if turn == self._turn and not isinstance(made, EdgeoptError):
                self.opened = made.opened
                self._show(made.scene, keep)
                self.view.show_level(level)
                if level is not None:
                    self.view.canvas.begin()
                if then is not None:
                    self.view.canvas.select(then)

        self._background.do(lambda: OpenedLayout(layout, opened, layout.scene(opened)), show)

    def _show(self, scene: Scene, keep: Path | None, becomes: Path | None = None) -> None:
        self.scene = scene
        self.view.show_scene(scene, keep, becomes)

    def _command_of_revisions(self, doing: str, *options: str) -> Command | None:
        subject = self.context.subject
        if subject is None:
            return None
        arguments = ("graph", str(subject.path), *options, "-o", f"{subject.path.stem}.html")
        return Command(f"{doing} {subject.name}", arguments)

    def _make_revisions(self, doing: str, *options: str) -> None:
        command, digest = self._command_of_revisions(doing, *options), self._digest
        if command is not None:
            self._making.start(command, lambda found: self._made_revisions(digest, found))
            self.context.changed.emit()

    def _made_revisions(self, digest: str, found: tuple[Revision, ...] | Ending) -> None:
        node, self._first_node = self._first_node, ""
        if isinstance(found, Ending):
            if node and self._beside is not None and found.how != "cancelled":
                self.context.say(f"{self._beside.name} cannot be drawn beside it: {found.what} {found.next_step}")
            elif found.how != "cancelled":
                self.context.report(found)
        elif digest == self._digest and len(found) > 1:
            self._revisions, at = found, 0 if node else 1
            self.view.revisions.set_revisions(found, at)
            self.show_revision(at, node)
        elif digest == self._digest:
            self._revisions = ()
            self.context.say("No pass changes this model.")
        self.context.changed.emit()

    def _selected_name(self) -> str:
        diagram, position = self.view.diagram, self._position()
        return "" if diagram is None or position is None else name_of(diagram.nodes[position])

    def _forget(self) -> None:
        self._turn += 1
        self.scene = self._layout = None
        self._nodes, self._digest, self._weights = (), "", {}
        self.context.use_times(())
        self._revisions, self._at = (), 0
        self.view.forget()
        self._making.cancel()
        if self._job is not None:
            self._job.cancel()
            self._job = None

    def _measured(self, job: Job, ending: Ending) -> None:
        if job is not self._job:
            return
        self._job = None
        if ending.good:
            times = msgspec.convert(ending.data["op_times"], tuple[OpTimes, ...])
            if self._revisions:
                self.leave_revisions()
            self.context.use_times(times)
            self.view.set_times(times)
            failed = [f"{each.backend}: {each.reason}" for each in times if each.reason]
            self.context.say("; ".join(failed) if failed else "The nodes were measured.")
        elif ending.how != "cancelled":
            self.context.report(ending)
        self.context.changed.emit()

    def _pick(self, position: int) -> None:
        if self.scene is not None and self._at == 0 and position != self._position():
            self.view.pick(position)

    def _picked(self, _path: Path | None) -> None:
        position = self._position()
        # Another revision has other nodes than the table.
        if position is not None and self._at == 0:
            self.context.node_picked.emit(position)
        self.context.changed.emit()

    def _position(self) -> int | None:
        canvas = self.view.canvas
        return canvas.walk.position(canvas.selected) if canvas.walk and canvas.selected else None
