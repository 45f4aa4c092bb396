"""The page Graph itself; `page` has its actions."""

from pathlib import Path as FilePath

import msgspec

from edgeopt.commands.graph.revisions import Revision
from edgeopt.decoding import thread_safe
from edgeopt.diagram.beside import Beside
from edgeopt.diagram.colours import change_colouring
from edgeopt.diagram.outline import Path
from edgeopt.diagram.scene import Layout, Level, Scene, diagram_of, level_at_first, opened_at
from edgeopt.errors import EdgeoptError
from edgeopt.graph.analysis import NodeRow, OpTimes
from edgeopt.graph.analysis.records import name_of
from edgeopt.graph.diff import GraphDiff
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context, GraphPair
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.base import Page
from edgeopt_gui.pages.graph.content import Drawn, GraphContent
from edgeopt_gui.pages.graph.layouts import (
    OpenedLayout,
    around,
    laid_out,
    laid_out_beside,
    opened_with,
    path_of,
)
from edgeopt_gui.pages.graph.pictures import text_of, text_of_pair, write_png
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
        """Number of layouts requested; the result of an older request is discarded."""
        self._positioned = False
        self._revisions: tuple[Revision, ...] = ()
        self._at = 0
        """Index of the revision that is shown."""
        self._pair: Beside | None = None
        """The pair of revisions that are shown side by side; None if one is shown."""
        self._making = RevisionJob(context.jobs)
        self._beside: FilePath | None = None
        """Path of the other model, if the revisions are two models."""
        self._colours_before = ""
        """Key of the colours of the open model when its revisions were shown first."""
        self._first_node = ""
        """Name of the open model's node to show once the revisions are loaded."""
        self.view.revisions.chosen.connect(self.show_revision)
        self.view.revisions.closed.connect(self.leave_revisions)
        context.graph_requested.connect(self.show_beside)
        for canvas in self.view.linked.canvases:
            canvas.toggled.connect(self._toggle)
        self.view.level_requested.connect(self.show_level)
        self.view.linked.picked.connect(lambda _: self._picked())
        self.view.reveal_requested.connect(self.reveal)
        context.nodes_changed.connect(self._nodes_changed)
        context.node_picked.connect(self._pick)
        context.changed.connect(self._offer_rewrites)
        self._nodes_changed()

    def command(self) -> Command | None:
        subject = self.context.subject
        if subject is None:
            return None
        if self._beside is not None and self._revisions:
            return self._command_of_revisions(
                "Measuring the nodes of", "--against", str(self._beside), *self._measuring()
            )
        # The page Model tries passes and asks runtimes; only the times are missing here.
        arguments = ("analyze", str(subject.path), "--quick", *self._measuring())
        return Command(f"Measuring the nodes of {subject.name}", arguments, alone=True)

    def _measuring(self) -> tuple[str, ...]:
        return ("--profile-ops", *(("--data", str(self.context.data)) if self.context.data is not None else ()))

    def key_to_measure(self) -> str:
        return "graph.measure"

    def has_measured(self) -> bool:
        return bool(self.context.op_times)

    # Actions of the user

    def measure(self) -> None:
        if self._beside is not None and self._revisions:
            self._make_revisions("Measuring the nodes of", "--against", str(self._beside), *self._measuring())
            return
        command = self.command()
        if command is None:
            return
        job = self._job = self.context.jobs.run(command)
        job.ended.connect(lambda ending: self._measured(job, ending))
        self.context.changed.emit()

    def why_not_measure(self) -> str:
        if self._job is not None or self._making.running:
            return "The nodes are being measured." if self._job is not None else self.why_no_revisions()
        return self.why_no_graph() or self.context.why_not_measure_device()

    def why_no_graph(self) -> str:
        if self.context.subject is None:
            return _NO_MODEL
        return "" if self.scene is not None else "The model has not been read yet."

    def begin_search(self) -> None:
        self.view.search.setFocus()
        self.view.search.selectAll()

    def show_level(self, level: Level) -> None:
        if self._layout is not None:
            self._lay_out(opened_at(self._layout.diagram, level), level=level)

    def command_of_passes(self) -> Command | None:
        return self._command_of_revisions("Running the passes on", "--passes")

    def step_through_passes(self) -> None:
        if self._revisions:
            self.leave_revisions()
        self._beside = None
        self._make_revisions("Running the passes on", "--passes")

    def choose_other(self) -> None:
        path = dialogs.choose_file(self, "Compare with", dialogs.DEPLOYED, "model")
        if path is not None:
            self.compare_with(path)

    def compare_with(self, path: FilePath) -> None:
        if self._revisions:
            self.leave_revisions()
        self._beside = path
        self._make_revisions("Comparing", "--against", str(path))

    def show_beside(self, pair: GraphPair) -> None:
        """Shows a node of the open model, coloured by how the other model differs, which is one revision away."""
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
        """Shows a revision and selects `node`, or else the node selected before, in its place on the screen."""
        if not self._revisions:
            return
        selected = node or self._selected_name()
        self._at = at
        self._turn += 1
        turn, before = self._turn, self.view.active.selected
        revisions = self._drawn_revisions(at)

        def show(made: "OpenedLayout | EdgeoptError") -> None:
            if turn != self._turn or isinstance(made, EdgeoptError):
                return
            self._layout, self.opened, self._pair = made.layout, made.opened, made.pair
            drawn = [self._drawn(each, made, side) for side, each in enumerate(revisions)]
            if made.pair is None:
                self.view.set_drawn(drawn[0])
            else:
                self.view.set_drawn(drawn[0], (made.pair, drawn[1], revisions[1].changes or GraphDiff(0, ())))
            path = path_of(drawn[0].diagram, selected) or path_of(drawn[-1].diagram, selected)
            self._show(made, None if node else before, path)
            if node:
                self.view.select(path, 0)
            self.context.changed.emit()

        one, other = revisions[0], revisions[-1]
        if one is other:
            self._background.do(
                lambda: laid_out(diagram_of(one.nodes, one.inputs, one.outputs), None, selected), show
            )
        else:
            self._background.do(lambda: laid_out_beside(one, other, selected), show)

    def _drawn_revisions(self, at: int) -> list[Revision]:
        """Returns the revision at an index, or that and the one before it if they are shown side by side."""
        if not self.view.revisions.beside.isChecked():
            return [self._revisions[at]]
        last = max(1, at)
        return [self._revisions[last - 1], self._revisions[last]]

    def _drawn(self, revision: Revision, made: OpenedLayout, side: int) -> Drawn:
        pair = made.pair
        diagram = made.layout.diagram if pair is None else pair.sides[side]
        of_both = self._revisions[max(1, self._at)].changes
        changes, is_first = (revision.changes, revision.is_first) if pair is None else (of_both, side == 0)
        coloured = None
        if changes is not None:
            coloured = change_colouring(diagram.nodes, changes, "first" if is_first else "second")
        # The known weights are those of the open model.
        is_open = revision is self._revisions[0]
        times = revision.times or (self.context.op_times if is_open else ())
        return Drawn(diagram, tuple(times), coloured, self._weights if is_open else {}, revision.title)

    def leave_revisions(self) -> None:
        """Shows the open model alone again, with its times, its colours and the same node selected."""
        selected = self._selected_name()
        self._revisions, self._at, self._pair, self._beside = (), 0, None, None
        self.view.revisions.set_revisions(())
        nodes, self._nodes = self._nodes, ()
        if nodes and self.context.analysis is not None:
            self._build(self.context.analysis.digest, back=True, selected=selected)

    def why_not_in_table(self) -> str:
        return self.why_no_graph() or ("" if self._position() is not None else "No node is selected.")

    def export(self) -> None:
        subject = self.context.subject
        name = f"{subject.path.stem}.html" if subject is not None else "graph.html"
        path = dialogs.choose_save(self, "Export the graph", _PICTURES, "picture", name)
        if path is not None:
            self.write_picture(path if path.suffix else path.with_suffix(".html"))

    def write_picture(self, path: FilePath) -> None:
        """Writes the graph as HTML, SVG or PNG, depending on the suffix."""
        subject, view, scene = self.context.subject, self.view, self.scene
        if subject is None or scene is None or view.diagram is None or view.colouring is None:
            return
        try:
            if path.suffix.lower() == ".png":
                write_png(path, view.canvas, scene)
            else:
                first = view.drawn[0].diagram
                text = (
                    text_of_pair(view.pair, view.drawn)
                    if view.pair is not None and path.suffix.lower() != ".svg"
                    else text_of(path, subject.name, first, scene, view.colourings)
                )
                path.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = f"The picture cannot be written: {error}."
            self.context.report(Ending("failed", {}, reason, "Choose another folder."))
        else:
            self.context.say(f"Written: {path.name}")

    def reveal(self, path: Path) -> None:
        """Opens the groups around an item and selects it."""
        self._lay_out(self.opened | around(path), then=path)

    # Events

    def _offer_rewrites(self) -> None:
        self.view.offer_rewrites(self.context.analysis)

    def entered(self) -> None:
        if self.scene is not None and not self._positioned:
            self._positioned = True
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

    def _build(self, digest: str, *, back: bool = False, selected: str = "") -> None:
        """Lays out the open model; groups stay open if only new facts about it are known.

        `back`: its revisions were shown, and `selected` is the name of the node that stays selected.
        """
        analysis, nodes = self.context.analysis, self.context.nodes
        if analysis is None or nodes == self._nodes or (self._revisions and digest == self._digest):
            return
        same = back or (digest == self._digest and len(nodes) == len(self._nodes))
        self._nodes, self._digest = nodes, digest
        if not same:
            self.context.use_times(())
            self.show_busy(f"Laying out {analysis.name}…")
        opened = self.opened if same and not back else None
        self._turn += 1
        turn = self._turn
        self._background.do(
            lambda: (
                laid_out(diagram_of(nodes, analysis.inputs, analysis.outputs), opened, selected),
                {weight.row.name: weight for weight in weights_of(analysis, nodes)},
            ),
            lambda made: self._built(turn, made, same, selected if back else None),
        )
        self.view.unread_weights = analysis.weights_summary.note

    def _built(
        self,
        turn: int,
        found: "tuple[OpenedLayout, dict[str, Weight]] | EdgeoptError",
        same: bool,
        selected: str | None,
    ) -> None:
        """Shows the open model; `selected` is None if no revision of it was shown before."""
        if turn != self._turn or isinstance(found, EdgeoptError):
            return
        made, self._weights = found
        self._layout, self.opened, self._pair = made.layout, made.opened, None
        diagram, before = made.layout.diagram, self.view.active.selected
        self.view.set_drawn(Drawn(diagram, tuple(self.context.op_times), weights=self._weights))
        becomes = path_of(diagram, selected) if selected else None
        if selected is not None:
            self.view.choose_colours(self._colours_before)
            if becomes is None:
                self.view.canvas.select(None)
        self._show(made, before if becomes is not None else None, becomes)
        if not same:
            self._positioned = self.isVisible()
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
        layout, pair = self._layout, self._pair
        if layout is None:
            return
        self._turn += 1
        turn = self._turn

        def show(made: "OpenedLayout | EdgeoptError") -> None:
            if turn == self._turn and not isinstance(made, EdgeoptError):
                self.opened = made.opened
                self._show(made, keep)
                self.view.show_level(level)
                if level is not None:
                    self.view.canvas.begin()
                if then is not None:
                    self.view.select(then)

        self._background.do(lambda: opened_with(layout, opened, pair), show)

    def _show(self, made: OpenedLayout, keep: Path | None, becomes: Path | None = None) -> None:
        self.scene = made.scene
        self.view.show_scene(made.scene, keep, becomes, made.second)

    def _command_of_revisions(self, doing: str, *options: str) -> Command | None:
        subject = self.context.subject
        if subject is None:
            return None
        arguments = ("graph", str(subject.path), *options, "-o", f"{subject.path.stem}.html")
        return Command(f"{doing} {subject.name}", arguments, alone="--profile-ops" in options)

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
            if not self._revisions:
                self._beside = None
        elif digest == self._digest and len(found) > 1:
            beside = self._wants_beside()
            if not self._revisions and self.view.colouring is not None:
                self._colours_before = self.view.colouring.key
            self._revisions, at = found, 0 if node else 1
            self.view.revisions.set_revisions(found, at, beside=beside)
            if found[0].times:
                self.context.use_times(found[0].times)
            self.show_revision(at, node)
        elif digest == self._digest:
            self._revisions = ()
            self.context.say("No pass changes this model.")
        self.context.changed.emit()

    def _wants_beside(self) -> bool:
        """Whether two revisions are side by side: by default if they are two models, else as the user chose."""
        bar = self.view.revisions
        return bar.beside.isChecked() if self._revisions else self._beside is not None

    def _selected_name(self) -> str:
        diagram, position = self.view.diagram, self._position()
        return "" if diagram is None or position is None else name_of(diagram.nodes[position])

    def _forget(self) -> None:
        self._turn += 1
        self.scene = self._layout = None
        self._nodes, self._digest, self._weights = (), "", {}
        self.context.use_times(())
        self.view.hottest.sizes = ()
        self._revisions, self._at, self._pair, self._beside = (), 0, None, None
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
            times = msgspec.convert(ending.data["op_times"], thread_safe(tuple[OpTimes, ...]))
            if self._revisions:
                self.leave_revisions()
            self.context.use_times(times)
            self.view.hottest.sizes = ending.data["work"]["shapes"]
            self.view.set_times(times)
            failed = [f"{each.backend}: {each.reason}" for each in times if each.reason]
            self.context.say("; ".join(failed) if failed else "The nodes were measured.")
        elif ending.how != "cancelled":
            self.context.report(ending)
        self.context.changed.emit()

    def _pick(self, position: int) -> None:
        if self.scene is None or position == self._open_position():
            return
        if self._pair is None and self._at == 0:
            self.view.pick(position)
        elif self._draws_open_model() and position < len(self._nodes):
            path = path_of(self._pair.sides[0], name_of(self._nodes[position])) if self._pair is not None else None
            if path is not None:
                self.view.go(path, 0)

    def _picked(self) -> None:
        position = self._open_position()
        if position is not None:
            self.context.node_picked.emit(position)
        self.context.changed.emit()

    def _draws_open_model(self) -> bool:
        """Whether the open model is drawn, alone or as the first of two."""
        return self._at == 0 or (self._pair is not None and self._at == 1)

    def _open_position(self) -> int | None:
        """Returns the position of the selected node in the open model; None if the selection is not part of it."""
        if not self._draws_open_model():
            return None
        if self._pair is None:
            return self._position()
        name = self._selected_name() if self.view.side == 0 else ""
        return next((node.position for node in self._nodes if name and name_of(node) == name), None)

    def _position(self) -> int | None:
        canvas = self.view.active
        return canvas.walk.position(canvas.selected) if canvas.walk and canvas.selected else None
