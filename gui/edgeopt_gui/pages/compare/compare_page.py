"""The page itself: two sides at the top, what their comparison found below."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from edgeopt.errors import EdgeoptError
from edgeopt_gui.actions.action import Face
from edgeopt_gui.agents.deploy_dialog import DeployDialog
from edgeopt_gui.background import Background
from edgeopt_gui.context import ComparePair, Context, GraphPair
from edgeopt_gui.drops import BUNDLE_ENDING, MODEL_ENDINGS
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.base import Page
from edgeopt_gui.pages.compare.comparison_run import ComparisonRun
from edgeopt_gui.pages.compare.head import LATEST, CompareHead
from edgeopt_gui.pages.compare.rows import LayerRow, position_of
from edgeopt_gui.pages.compare.sides import Part, Sides
from edgeopt_gui.pages.compare.view import CompareView
from edgeopt_gui.pages.optimize.slow import slow
from edgeopt_gui.source_model import SourceModel, source_of
from edgeopt_gui.subject import subject_at
from edgeopt_gui.widgets.dialogs import choose_file, choose_folder
from edgeopt_gui.widgets.states import EmptyState, ErrorState

TIME_LIMIT = "compare.time-limit-s"
_FOUND = "edgeopt_gui.pages.compare.found"
_FILES = "Models and bundles (*.onnx *.xml *.edgeopt);;All files (*)"
_PROMISE = (
    "Compares outputs, layers, operators and sizes on the same inputs; then measures both sides interleaved."
)
_EMPTY = "Open a model to compare it with another one."
_ENDINGS = MODEL_ENDINGS | {BUNDLE_ENDING, ".xml"}


class ComparePage(Page):
    MEASURES = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sides = Sides()
        self.comparing: ComparisonRun | None = None
        """The comparison that is shown."""
        self._by_hand: set[str] = set()
        """The sides that the user chose; the others follow the open subject."""
        self._notes = ["", ""]
        self._source_bundle: Path | None = None
        self._about: Path | None = None
        self._background = Background(self)
        self.head = CompareHead()
        self.head.limit.setValue(round(context.settings.number(TIME_LIMIT, 0)))
        self.ready = EmptyState()
        self.view = CompareView()
        self.failure = ErrorState()
        self.set_content(self._laid_out())
        self.head.limit.valueChanged.connect(self._limit_changed)
        self.view.layer_chosen.connect(self.show_layer)
        context.subject_changed.connect(self._subject_changed)
        context.bundle_changed.connect(self._follow)
        context.data_changed.connect(self._follow)
        context.compare_requested.connect(self.compare_pair)
        self._subject_changed()

    # Actions of the user

    def start(self) -> None:
        sides = self.sides = self._sides_now
        commands = sides.commands()
        if not commands or self._runs:
            return
        run = self.comparing = ComparisonRun(self.context.jobs, sides, commands, self)
        self.view.begin(run.commands)
        run.progressed.connect(lambda: self._show_progress(run))
        run.part_ended.connect(lambda part: self._ended(run, cast("Part", part)))
        run.start()
        self._show()

    def cancel(self) -> None:
        if self.comparing is not None:
            self.comparing.cancel()
            self.context.changed.emit()

    def why_not_start(self) -> str:
        if self._runs:
            return "A comparison is running; cancel it first."
        return self.sides.why_not() or self.context.why_not_measure_device()

    def why_not_cancel(self) -> str:
        if not self._runs:
            return "No comparison is running."
        stopping = self.comparing is not None and self.comparing.cancelled
        return "The comparison is stopping already." if stopping else ""

    def why_not_set(self) -> str:
        return "A comparison is running; cancel it first." if self._runs else ""

    def why_not_swap(self) -> str:
        nothing = self.sides.first is None and self.sides.second is None
        return self.why_not_set() or ("Both sides are empty." if nothing else "")

    @property
    def _bundle(self) -> Path | None:
        """The bundle among the sides, side B first; None if neither side is a bundle."""
        sides = (each for each in (self.sides.second, self.sides.first) if each is not None)
        return next((each for each in sides if subject_at(each).kind == "bundle"), None)

    def deploy(self) -> None:
        if (bundle := self._bundle) is not None:
            DeployDialog(self, self.context, bundle).open()

    def why_not_deploy(self) -> str:
        return "" if self._bundle is not None else "Neither side is a bundle."

    def why_not_show_layer(self) -> str:
        if self.comparing is None or "compare" not in self.comparing.endings:
            return "Nothing is compared yet."
        return "" if self.view.layers.current is not None else "No layer is selected."

    def choose(self, place: int, *, folder: bool = False) -> None:
        letter = "AB"[place]
        if folder:
            path = choose_folder(self, f"Choose the bundle folder of side {letter}", "bundle")
        else:
            path = choose_file(self, f"Choose side {letter}", _FILES, "compare")
        if path is not None:
            self.put(place, path)

    def put(self, place: int, path: Path) -> None:
        self._by_hand.add("AB"[place])
        self._notes[place] = ""
        self._set(replace(self.sides, first=path) if place == 0 else replace(self.sides, second=path))

    def swap(self) -> None:
        self._by_hand = {"A", "B"}
        self._notes.reverse()
        self._set(replace(self.sides, first=self.sides.second, second=self.sides.first))

    def compare_pair(self, pair: ComparePair) -> None:
        """Compares two files on request of another page; starts at once if that is possible."""
        if self._runs:
            self.context.say("A comparison is running; cancel it first.")
            return
        self._by_hand, self._notes = {"A", "B"}, ["", ""]
        self._set(Sides(pair.first, pair.second, pair.data))
        if not (reason := self.why_not_start()):
            self.start()
        else:
            self.context.say(reason)

    def take_drop(self, paths: list[Path]) -> bool:
        """Fills the sides with dropped files (two: A and B; one: A if empty, else B); returns whether it did."""
        if self._runs or not all(path.is_dir() or path.suffix in _ENDINGS for path in paths):
            return False
        if any(path.is_dir() and path.suffix != BUNDLE_ENDING for path in paths) or len(paths) > len(
            self.head.fields
        ):
            return False
        places = (0, 1) if len(paths) > 1 else (0,) if self.sides.first is None else (1,)
        for place, path in zip(places, paths, strict=True):
            self.put(place, path)
        return True

    def show_current_layer(self) -> None:
        self.show_layer(self.view.layers.current)

    def show_layer(self, row: LayerRow) -> None:
        """Shows the layer in the graph with the other side beside it, if one of the sides is the open subject."""
        subject, run = self.context.subject, self.comparing
        if run is None:
            return
        first, second = run.sides.first, run.sides.second
        found = {second: (row.other_node, first), first: (row.node, second)}
        label, other = found.get(subject.path, ("", None)) if subject is not None else ("", None)
        if other is None:
            self.context.say("Open one of the two sides to see its layers in the graph.")
            return
        position = position_of(label, self.context.nodes)
        if position is None:
            self.context.say(f"{label} is not among the nodes of the open model.")
            return
        self.context.show_in_graph(GraphPair(position, other))
        self.context.node_picked.emit(position)

    # Requests of the window

    @property
    def state(self) -> str:
        """The state of the page: below the sides, a comparison is `busy`, or an `error` if it found nothing."""
        found = super().state
        if found != "content":
            return found
        if self._runs:
            return "busy"
        return "error" if self._right.currentWidget() is self.failure else "content"

    def command(self) -> Command | None:
        """Returns the command of the measurement, which takes most of the time."""
        return self._sides_now.commands().get("bench")

    def key_to_measure(self) -> str:
        return "compare.start"

    def has_measured(self) -> bool:
        return self.comparing is not None and "compare" in self.comparing.endings

    def face_of_start(self) -> Face | None:
        return Face("Compare again") if self.comparing is not None and not self._runs else None

    def entered(self) -> None:
        # Imported in a background thread, long before a comparison has an outcome.
        self._background.do(lambda: slow(_FOUND), lambda _: None)

    # Events

    @property
    def _sides_now(self) -> Sides:
        """The chosen sides with the time limit and the layers option of the head."""
        return replace(self.sides, time_limit_s=self.head.limit.value(), layers=self.head.layers.isChecked())

    @property
    def _runs(self) -> bool:
        return self.comparing is not None and self.comparing.running

    def _subject_changed(self) -> None:
        """Resets the sides to the open subject, unless a comparison is running."""
        subject = self.context.subject
        path = subject.path if subject is not None else None
        if path == self._about and self.sides.first is not None:
            return
        self._about = path
        if self._runs:
            return
        self._by_hand, self._notes, self.sides = set(), ["", ""], Sides()
        self.comparing = None
        self._follow()

    def _follow(self) -> None:
        """Fills the sides that the user did not choose."""
        subject, bundle = self.context.subject, self.context.bundle
        if self._runs:
            return
        sides = replace(self.sides, data=self.context.data)
        if subject is not None and "A" not in self._by_hand:
            if subject.kind == "model":
                sides = replace(sides, first=subject.path)
            elif self._source_bundle != subject.path or sides.first is None:
                self._ask_for_source(subject.path)
        if "B" not in self._by_hand and bundle is not None and bundle != sides.first and self.comparing is None:
            sides = replace(sides, second=bundle)
            self._notes[1] = LATEST
        self._set(sides)

    def _ask_for_source(self, bundle: Path) -> None:
        self._source_bundle = bundle
        recent = self.context.settings.recent()

        def show_source(found: SourceModel | EdgeoptError) -> None:
            subject = self.context.subject
            if subject is None or subject.path != bundle or "A" in self._by_hand or self._runs:
                return
            if isinstance(found, EdgeoptError):
                self._notes[0] = found.message
            elif found.path is None:
                self._notes[0] = f"the bundle's source model {found.name} was not found: choose it"
            else:
                self._notes[0] = "the bundle's source model"
            path = None if isinstance(found, EdgeoptError) else found.path
            self._set(replace(self.sides, first=path))

        self._background.do(lambda: source_of(bundle, recent), show_source)

    def _limit_changed(self, seconds: int) -> None:
        self.context.settings.keep(TIME_LIMIT, seconds)
        self.context.changed.emit()

    def _set(self, sides: Sides) -> None:
        if (sides.first, sides.second) != (self.sides.first, self.sides.second):
            self.comparing = None
        self.sides = sides
        self._show()

    def _show_progress(self, run: ComparisonRun) -> None:
        if run is not self.comparing or run.job is None or run.part is None:
            return
        self.view.show_status(run.part, self.head.show_status(run.job, run.cancelled))

    def _ended(self, run: ComparisonRun, part: Part) -> None:
        if run is not self.comparing:
            return
        ending = run.endings[part]
        if part == "second" and not run.endings["first"].good:
            self.view.fail("first", run.endings["first"], run.commands)
        elif ending.good:
            self._read(run, part, ending)
        else:
            self.view.fail(part, ending, run.commands)
        if not run.running:
            for each, result in run.endings.items():
                if run.cancelled and result.how == "cancelled":
                    self.view.fail(each, result, run.commands)
            measured = run.endings.get("bench")
            self.context.say(self.view.headline.text() if measured is not None and measured.good else "")
        self._show()

    def _read(self, run: ComparisonRun, part: Part, ending: Ending) -> None:
        from edgeopt_gui.pages.compare import found

        names, commands = run.sides.names, run.commands
        try:
            if part == "compare":
                compared = found.read_comparison(ending.data)
                self.view.show_compared(compared, found.accuracy_line(compared), names, commands[part])
            elif part == "bench":
                report = found.read_measurement(ending.data)
                self.view.show_verdict(found.verdict_of(report))
                self.view.show_measured(report, names, [commands[part]])
            elif all(each in run.endings and run.endings[each].good for each in ("first", "second")):
                first_read, second_read = (found.read_analysis(run.endings[each].data) for each in _ANALYSES)
                own = [commands[each] for each in _ANALYSES]
                self.view.show_precision(first_read, second_read, names, own)
        except (msgspec.ValidationError, KeyError) as error:
            what = "The result of the job cannot be read."
            details = f"{ending.details}\n{error}"
            unread = run.endings[part] = Ending("failed", {}, what, "Install one version of edgeopt.", details)
            self.view.fail(part, unread, commands)

    # Display

    def _show(self) -> None:
        sides, run = self.sides, self.comparing
        self.head.show_sides(sides, (self._notes[0], self._notes[1]))
        self.head.show_running(self._runs)
        if self.context.subject is None and sides.first is None and sides.second is None:
            self.show_empty(_EMPTY, "app.open-model")
        else:
            self.show_content()
            self._show_right(run)
        self.context.changed.emit()

    def _show_right(self, run: ComparisonRun | None) -> None:
        endings = list(run.endings.values()) if run is not None else []
        if run is None:
            self.ready.set(self.sides.why_not() or _PROMISE, "compare.start")
            self._right.setCurrentWidget(self.ready)
        elif not run.running and not any(ending.good for ending in endings) and not run.cancelled:
            self.failure.set(endings[0], "compare.start")
            self._right.setCurrentWidget(self.failure)
        else:
            self._right.setCurrentWidget(self._scrolled)

    def _laid_out(self) -> QWidget:
        content = QWidget()
        line = self.fontMetrics().height()
        self._right = QStackedWidget()
        scrolled = self._scrolled = QScrollArea(widgetResizable=True)  # in a low window only
        scrolled.setFrameShape(QFrame.Shape.NoFrame)
        scrolled.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scrolled.setWidget(self.view)
        for widget in (self.ready, scrolled, self.failure):
            self._right.addWidget(widget)
        column = QVBoxLayout(content)
        column.setContentsMargins(line, line, line, line)
        column.setSpacing(line // 2)
        column.addWidget(self.head)
        column.addWidget(self._right, 1)
        return content


_ANALYSES: tuple[Part, Part] = ("first", "second")
