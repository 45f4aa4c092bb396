"""The content of the page Graph: search, colours, diagram, and the facts of the selected node."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from edgeopt import units
from edgeopt.diagram.beside import Beside
from edgeopt.diagram.changes import ChangeEntry, change_entries, shared_backend
from edgeopt.diagram.colours import MEASURED, Colouring, colourings
from edgeopt.diagram.figures import group_figures
from edgeopt.diagram.outline import Leaf, OutlineGroup, Path, leaves
from edgeopt.diagram.scene import LEVELS, Diagram, End, Level, Scene
from edgeopt.graph.analysis import Analysis, NodeRow, OpTimes
from edgeopt.graph.analysis.records import name_of
from edgeopt.graph.diff import GraphDiff
from edgeopt.views.words import milliseconds
from edgeopt_gui import theme
from edgeopt_gui.pages.graph.canvas import Canvas
from edgeopt_gui.pages.graph.change_list import change_summary
from edgeopt_gui.pages.graph.details import Details
from edgeopt_gui.pages.graph.legend import Legend
from edgeopt_gui.pages.graph.linked import LinkedCanvases
from edgeopt_gui.pages.graph.panes import Panes, toggle
from edgeopt_gui.pages.graph.revision_bar import RevisionBar
from edgeopt_gui.pages.model.findings import may_change
from edgeopt_gui.pages.model.links import NO_LINKS, WEIGHT, Links
from edgeopt_gui.pages.model.measured import fastest
from edgeopt_gui.pages.model.tables import Weight, searched
from edgeopt_gui.pages.model.words import node_facts, tensor_text
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.fact import Fact, FactGroup


@dataclass(frozen=True, slots=True)
class Drawn:
    """One model in a canvas, with what is known of it."""

    diagram: Diagram
    times: tuple[OpTimes, ...] = ()
    changes: Colouring | None = None
    """Colours that mark the changes since the previous revision."""
    weights: Mapping[str, Weight] = field(default_factory=dict)
    """Weights by name; empty if another revision than the open model is shown."""
    name: str = ""

    def colourings(self) -> tuple[Colouring, ...]:
        changes = () if self.changes is None else (self.changes,)
        return (*changes, *colourings(self.diagram.nodes, self.times))


class GraphContent(QWidget):
    reveal_requested = Signal(object)
    """The path of an item whose groups must be opened."""

    level_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.canvas, self.second = Canvas(), Canvas()
        self.second.setAccessibleName("Graph of the second model")
        self.linked = LinkedCanvases(self.canvas, self.second)
        self.linked.picked.connect(self._show_selected)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search names, operators and tensors")
        self.search.setAccessibleName("Search the graph")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._search)
        self.search.returnPressed.connect(self.next_hit)
        self.hits_count = QLabel()
        self.colours = QComboBox()
        self.colours.setAccessibleName("Colour by")
        self.colours.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.colours.activated.connect(lambda at: self.choose_colours(self.colours.itemData(at)))
        self.legend = Legend()
        self.levels = QComboBox()
        self.levels.setAccessibleName("Level of detail")
        self.levels.setPlaceholderText("Some groups")
        for level in LEVELS:
            self.levels.addItem(level.capitalize(), level)
        self.levels.activated.connect(lambda at: self.level_requested.emit(self.levels.itemData(at)))
        self.details = details = Details()
        self.title, self.facts, self.weight = details.title, details.facts, details.weight
        self.hottest, self.changed = details.hottest, details.changed
        self.facts.followed.connect(self._follow)
        self.hottest.node_requested.connect(self._show_node)
        self.changed.entry_requested.connect(self._show_entry)
        self._links: Sequence[Links] = (NO_LINKS,)
        self.map_button = toggle("map", "Map", "Show the map when only a part of the graph is in view")
        self.map_button.toggled.connect(lambda _: self._want_map())
        self.unread_weights = ""
        """The reason why the values of weights were not read; "" if they were."""
        self.colouring: Colouring | None = None
        self.drawn: tuple[Drawn, ...] = ()
        """The drawings: one, or two side by side."""
        self.side = 0
        """Index of the drawing with the latest selection."""
        self._known: tuple[tuple[Colouring, ...], ...] = ()
        self._diff: GraphDiff | None = None
        self.revisions = RevisionBar()
        self._beside = QWidget()
        """The second drawing with its name."""
        self._names = (QLabel(), QLabel())
        """Labels above two drawings, with the names of their models."""
        self._hits: list[int] = []
        self._hit = -1
        theme.scheme_changed.connect(self._colour_shown)
        self.panes = Panes(self._drawings(), self.details)
        self._lay_out()

    @property
    def diagram(self) -> Diagram | None:
        """The diagram with the latest selection; None if nothing is drawn."""
        return self.drawn[self.side].diagram if self.drawn else None

    @property
    def active(self) -> Canvas:
        return self.linked.canvases[self.side]

    @property
    def pair(self) -> Beside | None:
        return self.linked.pair

    def set_drawn(self, first: Drawn, pair: "tuple[Beside, Drawn, GraphDiff] | None" = None) -> None:
        """Sets one or two models, or new facts about them; the scene is set after that."""
        before = self.drawn
        self.drawn = (first,) if pair is None else (first, pair[1])
        self.linked.pair, self._diff = (None, None) if pair is None else (pair[0], pair[2])
        self.side = min(self.side, len(self.drawn) - 1)
        for widget in (self._beside, self.changed, *self._names):
            widget.setVisible(pair is not None)
        self._want_map()
        for label, each in zip(self._names, self.drawn, strict=False):
            label.setText(each.name)
        self._links = [Links.of(each.diagram.nodes, each.weights) for each in self.drawn]
        self._known = ()
        is_new = first.changes is not None and not (before and before[0].changes)
        self._know_colours("change" if is_new else "")
        self._search(self.search.text())

    def offer_rewrites(self, analysis: Analysis | None) -> None:
        """Shows the button for the rewrites if there are some, or if that is unknown, until they are shown."""
        self.rewrites.setVisible(analysis is not None and self.revisions.isHidden() and may_change(analysis))

    def show_scene(
        self, scene: Scene, keep: Path | None = None, becomes: Path | None = None, second: Scene | None = None
    ) -> None:
        if self.colouring is None:
            return
        scenes = (scene,) if second is None else (scene, second)
        with self.linked.suspended():
            for side, (its, drawn, canvas) in enumerate(
                zip(scenes, self.drawn, self.linked.canvases, strict=False)
            ):
                canvas.show_scene(drawn.diagram, its, self._chosen_of(side), keep, becomes)
            if second is None:
                self.second.clear()
                self._say_legend()
            else:
                self._colour()
                self.second.follow(self.canvas)
        self._mark_hits()
        self._show_selected(self.side)

    def set_times(self, times: Sequence[OpTimes]) -> None:
        """Sets measured times of the first model, and colours the nodes by them."""
        if self.drawn:
            self.drawn = (replace(self.drawn[0], times=tuple(times)), *self.drawn[1:])
        self._know_colours()
        if (measured := fastest(times)) is not None:
            self.choose_colours(f"{MEASURED}{measured.backend}")
        self._show_selected(self.side)

    def pick(self, position: int) -> None:
        """Selects the node that was picked on another page, and brings it into sight."""
        if self.diagram is not None and position in self.diagram.wiring.paths:
            self._go(self.diagram.wiring.paths[position])

    def select(self, path: Path | None, side: int | None = None) -> None:
        """Selects an item in the drawing that contains it, which need not be the one of `side`."""
        at = self.side if side is None else side
        if path is not None and self.pair is not None and not self.pair.shows(at, path):
            at = 1 - at
        self.side = at
        self.active.select(path)

    def go(self, path: Path, side: int) -> None:
        """Shows an item of one drawing, and opens the groups around it."""
        self.side = side
        self._go(path)

    def _go(self, path: Path) -> None:
        if path != self.active.selected:
            if path in self.active.boxes:
                self.active.select(path)
            else:
                self.reveal_requested.emit(path)

    def _show_entry(self, entry: ChangeEntry) -> None:
        self.side = entry.side
        self.pick(entry.position)

    def _follow(self, link: str) -> None:
        """Follows a link to the producer of a tensor, to its first reader, or to the values of a weight."""
        if link.startswith(WEIGHT):
            self._show_weight(link.removeprefix(WEIGHT))
        elif positions := self._links[self.side].positions(link):
            self.pick(positions[0])

    def _show_node(self, name: str) -> None:
        nodes = self.diagram.nodes if self.diagram is not None else ()
        position = next((node.position for node in nodes if name and name_of(node) == name), None)
        if position is not None:
            self.pick(position)

    def show_level(self, level: Level | None) -> None:
        """Says how much is open; None: the user opened or folded groups one by one."""
        self.levels.setCurrentIndex(self.levels.findData(level) if level is not None else -1)

    def next_hit(self) -> None:
        if not self._hits:
            return
        self._hit = (self._hit + 1) % len(self._hits)
        self._say_hits()
        self.pick(self._hits[self._hit])

    @property
    def colourings(self) -> tuple[Colouring, ...]:
        """The colourings of the first model, the chosen one first."""
        chosen = () if self.colouring is None else (self.colouring,)
        known = self._known[0] if self._known else ()
        return (*chosen, *(each for each in known if each is not self.colouring))

    def forget(self) -> None:
        self.search.clear()
        self.linked.pair = self._diff = None
        for canvas in self.linked.canvases:
            canvas.clear()
        self.drawn, self.side = (), 0
        self.revisions.set_revisions(())

    def _know_colours(self, preferred: str = "") -> None:
        if not self.drawn:
            return
        self._known = tuple(each.colourings() for each in self.drawn)
        key = preferred or (self.colouring.key if self.colouring is not None else "")
        self.colours.clear()
        titles = {each.key: each.title for known in self._known for each in known}
        for each, title in titles.items():
            self.colours.addItem(title, each)
        self.choose_colours(key if key in titles else "")

    def choose_colours(self, key: str) -> None:
        known = [each for its in self._known for each in its]
        chosen = next((each for each in known if each.key == key), None) or next(iter(known), None)
        if chosen is None:
            chosen = Colouring("", "", (None,) * len(self.diagram.nodes if self.diagram else ()))
        self.colouring = chosen
        self.colours.setCurrentIndex(self.colours.findData(chosen.key))
        backend = chosen.key.removeprefix(MEASURED)
        self.hottest.set_times(self.drawn[0].times if len(self.drawn) == 1 else (), backend)
        self._list_changes(backend)
        self._show_details()
        self._colour_shown()

    def _chosen_of(self, side: int) -> Colouring:
        """Returns the chosen colouring of a drawing; all nodes are white if it has none of this kind."""
        key = self.colouring.key if self.colouring is not None else ""
        found = next((each for each in self._known[side] if each.key == key), None)
        return found or Colouring(key, "", (None,) * len(self.drawn[side].diagram.nodes))

    def _colour_shown(self) -> None:
        if self.drawn and self.canvas.diagram is self.drawn[0].diagram:
            self._colour()

    def _colour(self) -> None:
        """Colours the drawings with one common scale and legend."""
        canvases = self.linked.canvases[: len(self.drawn)]
        maximum = 0.0
        for side, canvas in enumerate(canvases):
            canvas.colour_by(self._chosen_of(side), maximum)
            maximum = max(maximum, canvas.maximum)
        if self.canvas.maximum < maximum:
            self.canvas.colour_by(self._chosen_of(0), maximum)
        self._say_legend()

    def _say_legend(self) -> None:
        canvases = self.linked.canvases[: len(self.drawn)]
        entries = dict.fromkeys(entry for canvas in canvases for entry in canvas.legend)
        self.legend.set_entries(tuple(entries))

    def _list_changes(self, backend: str) -> None:
        if self.pair is not None and self._diff is not None:
            first, second = (each.times for each in self.drawn)
            shared = shared_backend(first, second, backend)
            entries = change_entries(self.pair, self._diff, (first, second), shared)
            self.changed.set_entries(entries, change_summary(self._diff, (first, second), shared))

    def _search(self, text: str) -> None:
        query = text.casefold().strip()
        nodes = self.diagram.nodes if self.diagram and query else ()
        paths = self.diagram.wiring.paths if self.diagram else {}
        found = (node.position for node in nodes if query in searched(node).casefold())
        self._hits = [position for position in found if position in paths]
        self._hit = -1
        self._say_hits()
        self._mark_hits()

    def _say_hits(self) -> None:
        if not self.search.text().strip():
            self.hits_count.clear()
        elif self._hit < 0:
            self.hits_count.setText(f"{len(self._hits):,} found" if self._hits else "none found")
        else:
            self.hits_count.setText(f"{self._hit + 1:,} of {len(self._hits):,}")

    def _mark_hits(self) -> None:
        walk, diagram, canvas = self.active.walk, self.diagram, self.active
        if walk is None or diagram is None or canvas.diagram is not diagram:
            return
        shown = (walk.shown(diagram.wiring.paths[position]) for position in self._hits)
        canvas.mark_found({path for path in shown if path is not None})

    def _show_selected(self, side: int) -> None:
        if side != self.side:
            self.side = side
            self._search(self.search.text())
        path = self.active.selected
        self.details.show_selection(path is not None)
        self._show_details()
        self._show_weight("")
        if path is None or self.diagram is None:
            return
        item = self.diagram.item(path)
        if isinstance(item, End):
            self.title.setText("Input" if item.is_input else "Output")
            self.facts.set_groups((FactGroup("", (Fact("Tensor", tensor_text(item.tensor)),)),))
        elif isinstance(item, OutlineGroup):
            self.title.setText(item.title)
            self.facts.set_groups((self._facts_of_group(path, item),))
        else:
            node = self.diagram.nodes[item.position]
            self.title.setText(node.operator)
            changed = tuple(self._change_facts(path, item))
            groups = (FactGroup("", changed),) if changed else ()
            self.facts.set_groups((*groups, *node_facts(node, self._links[self.side]), *self._times_of(node)))
            self._show_weight(max(self._read_by(node), key=self._size_of_weight, default=""))

    def _change_facts(self, path: Path, item: Leaf) -> Iterator[Fact]:
        drawn = self.drawn[self.side]
        if self.pair is not None:
            yield Fact("Model", drawn.name)
        if drawn.changes is not None and (change := drawn.changes.of(item)) is not None:
            yield Fact("Change", change.text)
        if self.pair is not None:
            other = self.pair.counterpart(self.side, path)
            found = self.pair.sides[1 - self.side].item(other) if other is not None else None
            node = self.pair.sides[1 - self.side].nodes[found.position] if isinstance(found, Leaf) else None
            yield Fact("Other model", "no counterpart" if node is None else f"{node.operator} {name_of(node)}")

    def _read_by(self, node: NodeRow) -> list[str]:
        """Returns the weights among a node's inputs whose values are known."""
        return [tensor.name for tensor in node.inputs if tensor.name in self.drawn[self.side].weights]

    def _size_of_weight(self, name: str) -> int:
        return self.drawn[self.side].weights[name].row.size_bytes

    def _show_weight(self, name: str) -> None:
        weights = self.drawn[self.side].weights if self.drawn else {}
        self.weight.show_weight(weights.get(name), self.unread_weights)

    def _facts_of_group(self, path: Path, group: OutlineGroup) -> FactGroup:
        """Returns the facts of a group: figures, measured times, the chosen colour's value, and operators."""
        diagram = self.diagram
        figures = group_figures(diagram, path) if diagram is not None else ()
        facts = [Fact(name, text) for name, text in figures]
        chosen = self.colouring.key if self.colouring is not None else ""
        for each in self._known[self.side]:
            fill = each.of(group)
            if fill is not None and (each.key == chosen or each.key.startswith(MEASURED)):
                facts.append(Fact(each.title, fill.text))
        counts: dict[str, int] = {}
        for position in leaves(group):
            operator = diagram.nodes[position].operator if diagram else ""
            counts[operator] = counts.get(operator, 0) + 1
        maximum = sorted(counts.items(), key=lambda pair: -pair[1])
        facts.append(Fact("Operators", ", ".join(f"{count} {operator}" for operator, count in maximum)))
        return FactGroup("", tuple(facts))

    def _times_of(self, node: NodeRow) -> Sequence[FactGroup]:
        facts: list[Fact] = []
        for times in self.drawn[self.side].times:
            rows = [row for row in times.rows if name_of(node) in row.members]
            for row in rows:
                others = len(row.members) - 1
                fused = f", together with {others} other node{'s' * (others > 1)}" if others else ""
                facts.append(
                    Fact(
                        times.backend,
                        f"{milliseconds(row.time_ms)}, {units.percent(row.share)}{fused} ({row.operator})",
                    )
                )
            if not rows and times.rows:
                facts.append(Fact(times.backend, "no kernel of its own"))
        return (FactGroup("Measured", tuple(facts)),) if facts else ()

    def _want_map(self) -> None:
        self.canvas.minimap.want(self.pair is None and self.map_button.isChecked())

    def _show_details(self) -> None:
        selected = self.active.selected
        self.panes.show_details(after_clicks=selected is not None and self.active.is_group(selected))

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        tools = QHBoxLayout()
        tools.addWidget(self.search, 2)
        tools.addWidget(self.hits_count)
        tools.addSpacing(line)
        for title, choice in (("Show", self.levels), ("Colour by", self.colours)):
            label = QLabel(title)
            label.setBuddy(choice)
            # In a narrow window the search has the room before them.
            choice.setMinimumWidth(line * 5)
            tools.addWidget(label)
            tools.addWidget(choice)
        tools.addStretch(1)
        self.rewrites = ActionButton("graph.passes", text="Rewrites")
        tools.addWidget(self.rewrites)
        tools.addWidget(self.map_button)
        tools.addWidget(self.panes.button)
        self.search.setMinimumWidth(line * 8)
        head = QVBoxLayout()
        head.setContentsMargins(line, line // 2, line, 0)
        for row in (self.legend, self.revisions):
            head.addWidget(row)
        head.insertLayout(0, tools)
        page = QVBoxLayout(self)
        page.setContentsMargins(0, 0, 0, 0)
        page.addLayout(head)
        page.addWidget(self.panes, 1)
        self._show_selected(0)

    def _drawings(self) -> QWidget:
        graph = QWidget()
        row = QHBoxLayout(graph)
        row.setContentsMargins(0, 0, 0, 0)
        places = (graph, self._beside)
        for place, label, canvas in zip(places, self._names, self.linked.canvases, strict=True):
            label.hide()
            label.setContentsMargins(self.fontMetrics().height(), 0, 0, 0)
            column = QVBoxLayout() if place is graph else QVBoxLayout(place)
            column.setContentsMargins(0, 0, 0, 0)
            column.addWidget(label)
            column.addWidget(canvas, 1)
            if place is graph:
                row.addLayout(column, 1)
            else:
                row.addWidget(place, 1)
        self._beside.hide()
        self.second.minimap.want(False)
        return graph
