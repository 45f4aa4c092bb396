"""What the page Graph shows: the search, the colours, the diagram, and the selected node beside it."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QScrollArea,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from edgeopt import units
from edgeopt.diagram.colours import MEASURED, Colouring, colourings
from edgeopt.diagram.figures import group_figures
from edgeopt.diagram.outline import OutlineGroup, Path, leaves
from edgeopt.diagram.scene import LEVELS, Diagram, End, Level, Scene
from edgeopt.graph.analysis import NodeRow, OpTimes
from edgeopt.graph.analysis.records import name_of
from edgeopt.views.words import milliseconds
from edgeopt_gui.pages.graph.canvas import Canvas
from edgeopt_gui.pages.graph.hottest import Hottest
from edgeopt_gui.pages.graph.legend import Legend
from edgeopt_gui.pages.graph.revision_bar import RevisionBar
from edgeopt_gui.pages.model.links import NO_LINKS, WEIGHT, Links
from edgeopt_gui.pages.model.measured import fastest
from edgeopt_gui.pages.model.tables import Weight, searched
from edgeopt_gui.pages.model.weight_view import WeightView
from edgeopt_gui.pages.model.words import node_facts, tensor_text
from edgeopt_gui.widgets.fact import Fact, FactGroup
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.heading import heading, quiet


class GraphContent(QWidget):
    reveal_wanted = Signal(object)
    """The path of an item whose groups are to be opened."""

    level_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.canvas = Canvas()
        self.canvas.picked.connect(self._show_selected)
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
        self.colours.activated.connect(lambda at: self._choose_colours(self.colours.itemData(at)))
        self.legend = Legend()
        self.levels = QComboBox()
        self.levels.setAccessibleName("Level of detail")
        self.levels.setPlaceholderText("Some groups")
        for level in LEVELS:
            self.levels.addItem(level.capitalize(), level)
        self.levels.activated.connect(lambda at: self.level_wanted.emit(self.levels.itemData(at)))
        self.title = heading("", 3)
        self.facts = FactsView(name_letters=17)
        self.facts.followed.connect(self._follow)
        self.hottest = Hottest()
        self.hottest.node_wanted.connect(self._show_node)
        self._links = NO_LINKS
        self.weight = WeightView(name_letters=17)
        self._weights: Mapping[str, Weight] = {}
        """By name; empty where another revision is shown."""
        self.unread_weights = ""
        """Why nobody looked at the values of weights; "" where that was done."""
        self.hint = quiet("Click a node, or move with the arrow keys.")
        self.diagram: Diagram | None = None
        self.colouring: Colouring | None = None
        self._known: tuple[Colouring, ...] = ()
        self._times: tuple[OpTimes, ...] = ()
        self._changes: Colouring | None = None
        """What changed against the revision before."""
        self.revisions = RevisionBar()
        self._hits: list[int] = []
        self._hit = -1
        self._lay_out()

    def set_diagram(
        self,
        diagram: Diagram,
        times: Sequence[OpTimes],
        changes: Colouring | None = None,
        weights: Mapping[str, Weight] | None = None,
    ) -> None:
        """Another model, or more that is known of it; the scene follows."""
        self.diagram = diagram
        self._weights = weights or {}
        self._links = Links.of(diagram.nodes, self._weights)
        self._times = tuple(times)
        before, self._changes = self._changes, changes
        self._known = ()
        self._know_colours("change" if changes is not None and before is None else "")
        self._search(self.search.text())

    def show_scene(self, scene: Scene, keep: Path | None = None, becomes: Path | None = None) -> None:
        if self.diagram is not None and self.colouring is not None:
            self.canvas.show_scene(self.diagram, scene, self.colouring, keep, becomes)
            self.legend.set_entries(self.canvas.legend)
            self._mark_hits()
            self._show_selected(self.canvas.selected)

    def set_times(self, times: Sequence[OpTimes]) -> None:
        """Measured times: the colours show them at once."""
        self._times = tuple(times)
        self._know_colours()
        if (measured := fastest(times)) is not None:
            self._choose_colours(f"{MEASURED}{measured.backend}")
        self._show_selected(self.canvas.selected)

    def pick(self, position: int) -> None:
        """Selects the node that was picked on another page, and brings it into sight."""
        if self.diagram is None or position not in self.diagram.wiring.paths:
            return
        path = self.diagram.wiring.paths[position]
        if path != self.canvas.selected:
            if path in self.canvas.boxes:
                self.canvas.select(path)
            else:
                self.reveal_wanted.emit(path)

    def _follow(self, link: str) -> None:
        """To the node that makes a tensor, to the first that reads it, or to a weight below the facts."""
        if link.startswith(WEIGHT):
            self._show_weight(link.removeprefix(WEIGHT))
        elif positions := self._links.positions(link):
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
        """Those to choose from, the chosen one first."""
        chosen = () if self.colouring is None else (self.colouring,)
        return (*chosen, *(each for each in self._known if each is not self.colouring))

    def forget(self) -> None:
        self.search.clear()
        self.canvas.clear()
        self.diagram = None
        self._times = ()
        self._changes = None
        self.revisions.set_revisions(())

    def _know_colours(self, wanted: str = "") -> None:
        if self.diagram is None:
            return
        changes = () if self._changes is None else (self._changes,)
        self._known = (*changes, *colourings(self.diagram.nodes, self._times))
        key = wanted or (self.colouring.key if self.colouring is not None else "")
        self.colours.clear()
        for each in self._known:
            self.colours.addItem(each.title, each.key)
        self._choose_colours(key if any(each.key == key for each in self._known) else "")

    def _choose_colours(self, key: str) -> None:
        chosen = next((each for each in self._known if each.key == key), None) or next(iter(self._known), None)
        if chosen is None:
            chosen = Colouring("", "", (None,) * len(self.diagram.nodes if self.diagram else ()))
        self.colouring = chosen
        self.colours.setCurrentIndex(self.colours.findData(chosen.key))
        self.hottest.set_times(self._times, chosen.key.removeprefix(MEASURED))
        if self.diagram is not None and self.canvas.diagram is self.diagram:
            self.canvas.colour_by(chosen)
            self.legend.set_entries(self.canvas.legend)

    def _search(self, text: str) -> None:
        wanted = text.casefold().strip()
        nodes = self.diagram.nodes if self.diagram and wanted else ()
        paths = self.diagram.wiring.paths if self.diagram else {}
        found = (node.position for node in nodes if wanted in searched(node).casefold())
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
        walk, diagram = self.canvas.walk, self.diagram
        if walk is None or diagram is None or self.canvas.diagram is not diagram:
            return
        shown = (walk.shown(diagram.wiring.paths[position]) for position in self._hits)
        self.canvas.mark_found({path for path in shown if path is not None})

    def _show_selected(self, path: Path | None) -> None:
        self.hint.setVisible(path is None)
        for widget in (self.title, self.facts):
            widget.setVisible(path is not None)
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
            change = self._changes.of(item) if self._changes is not None else None
            changed = (FactGroup("", (Fact("Change", change.text),)),) if change is not None else ()
            self.facts.set_groups((*changed, *node_facts(node, self._links), *self._times_of(node)))
            self._show_weight(max(self._read_by(node), key=self._size_of_weight, default=""))

    def _read_by(self, node: NodeRow) -> list[str]:
        """The weights among its inputs whose values are known."""
        return [tensor.name for tensor in node.inputs if tensor.name in self._weights]

    def _size_of_weight(self, name: str) -> int:
        return self._weights[name].row.size_bytes

    def _show_weight(self, name: str) -> None:
        self.weight.show_weight(self._weights.get(name), self.unread_weights)

    def _facts_of_group(self, path: Path, group: OutlineGroup) -> FactGroup:
        """With the measured times and the colour, if that is something else."""
        diagram = self.diagram
        figures = group_figures(diagram, path) if diagram is not None else ()
        facts = [Fact(name, text) for name, text in figures]
        for each in self._known:
            fill = each.of(group)
            if fill is not None and (each is self.colouring or each.key.startswith(MEASURED)):
                facts.append(Fact(each.title, fill.text))
        counts: dict[str, int] = {}
        for position in leaves(group):
            operator = diagram.nodes[position].operator if diagram else ""
            counts[operator] = counts.get(operator, 0) + 1
        most = sorted(counts.items(), key=lambda pair: -pair[1])
        facts.append(Fact("Operators", ", ".join(f"{count} {operator}" for operator, count in most)))
        return FactGroup("", tuple(facts))

    def _times_of(self, node: NodeRow) -> Sequence[FactGroup]:
        facts: list[Fact] = []
        for times in self._times:
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

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        tools = QHBoxLayout()
        tools.addWidget(self.search, 2)
        tools.addWidget(self.hits_count)
        tools.addSpacing(line)
        for title, choice in (("Show", self.levels), ("Colour by", self.colours)):
            label = QLabel(title)
            label.setBuddy(choice)
            tools.addWidget(label)
            tools.addWidget(choice)
        tools.addStretch(1)
        side = QWidget()
        column = QVBoxLayout(side)
        column.setContentsMargins(line // 2, 0, line // 2, line // 2)
        for widget in (self.hint, self.title, self.facts, self.weight):
            column.addWidget(widget)
        column.addStretch(1)
        area = QScrollArea()
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setAccessibleName("The selected node")
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(side)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.setChildrenCollapsible(False)
        graph = QWidget()
        row = QHBoxLayout(graph)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.canvas, 1)
        row.addWidget(self.canvas.minimap, 0, Qt.AlignmentFlag.AlignTop)
        split.addWidget(graph)
        beside = QSplitter(Qt.Orientation.Vertical)
        beside.setChildrenCollapsible(False)
        beside.addWidget(self.hottest)
        beside.addWidget(area)
        beside.setSizes([line * 18, line * 24])
        split.addWidget(beside)
        split.setStretchFactor(0, 1)
        split.setSizes([line * 48, line * 26])
        page = QVBoxLayout(self)
        page.setContentsMargins(line, line // 2, line, line // 2)
        page.addLayout(tools)
        page.addWidget(self.legend)
        page.addWidget(self.revisions)
        page.addWidget(split, 1)
        self._show_selected(None)
