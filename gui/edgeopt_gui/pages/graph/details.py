"""The panel beside the graph: where the time goes, what changed, and the facts of the selected node."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QFrame, QScrollArea, QSplitter, QVBoxLayout, QWidget

from edgeopt_gui.pages.graph.change_list import ChangeList
from edgeopt_gui.pages.graph.hottest import Hottest
from edgeopt_gui.pages.model.weight_view import WeightView
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.heading import heading
from edgeopt_gui.widgets.icon_button import IconButton

_NAME_LETTERS = 14


class Details(QWidget):
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.title = heading("", 3)
        self.facts = FactsView(name_letters=_NAME_LETTERS)
        self.weight = WeightView(name_letters=_NAME_LETTERS)
        self.hottest = Hottest()
        self.changed = ChangeList()
        self.close_button = IconButton("close", "Close the details")
        self.close_button.clicked.connect(self.closed)
        self._selection = self._scrolled()
        self._parts = QSplitter(Qt.Orientation.Vertical)
        self._parts.setChildrenCollapsible(False)
        line = self.fontMetrics().height()
        for part, lines in ((self.hottest, 18), (self.changed, 18), (self._selection, 24)):
            self._parts.addWidget(part)
            part.setMinimumSize(line * 7, line * 4)
            self._parts.setStretchFactor(self._parts.count() - 1, lines)
        self._parts.setSizes([line * 18, line * 18, line * 24])
        self._box = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(0)
        corner = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight
        self._box.addWidget(self.close_button, 0, corner)
        self._box.addWidget(self._parts, 1)

    @property
    def has_content(self) -> bool:
        parts = (self.hottest, self.changed, self._selection)
        return any(not part.isHidden() for part in parts)

    def show_selection(self, shown: bool) -> None:
        self._selection.setVisible(shown)

    def arrange(self, below: bool) -> None:
        """Puts the parts beside each other if the panel is below the graph, else below each other."""
        self._parts.setOrientation(Qt.Orientation.Horizontal if below else Qt.Orientation.Vertical)
        ways = QBoxLayout.Direction
        self._box.setDirection(ways.RightToLeft if below else ways.TopToBottom)

    def _scrolled(self) -> QScrollArea:
        line = self.fontMetrics().height()
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(line // 2, 0, line // 2, line // 2)
        for widget in (self.title, self.facts, self.weight):
            column.addWidget(widget)
        column.addStretch(1)
        area = QScrollArea()
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setAccessibleName("The selected node")
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inner)
        return area
