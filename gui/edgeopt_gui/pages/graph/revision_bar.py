"""A slider over the revisions of a model: the source, and what each pass or another model made of it."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QSizePolicy, QSlider, QWidget

from edgeopt.commands.graph.revisions import Revision
from edgeopt_gui.widgets.icon_button import IconButton


class RevisionBar(QWidget):
    chosen = Signal(int)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._revisions: tuple[Revision, ...] = ()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName("Revision of the model")
        self.slider.setTickPosition(QSlider.TickPosition.TicksBelow)
        self.slider.setPageStep(1)
        self.slider.setFixedWidth(self.fontMetrics().averageCharWidth() * 30)
        self.slider.valueChanged.connect(self._chosen)
        self.label = QLabel()
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.beside = QCheckBox("Side by side")
        self.beside.setToolTip("Both models, with nodes that belong together at the same height")
        self.beside.toggled.connect(lambda _: self.chosen.emit(self.slider.value()))
        self.close_button = IconButton("close", "Show the model alone again")
        self.close_button.clicked.connect(self.closed)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.slider)
        row.addWidget(self.label, 1)
        row.addWidget(self.beside)
        row.addWidget(self.close_button)
        self.hide()

    def set_revisions(self, revisions: Sequence[Revision], at: int = 0, *, beside: bool | None = None) -> None:
        """Shows the revisions, and hides the bar if there are none; `beside` is whether two are side by side."""
        self._revisions = tuple(revisions)
        self.setVisible(bool(revisions))
        self.slider.blockSignals(True)
        self.slider.setRange(0, max(0, len(revisions) - 1))
        self.slider.setValue(at)
        self.slider.blockSignals(False)
        if beside is not None:
            self.beside.blockSignals(True)
            self.beside.setChecked(beside)
            self.beside.blockSignals(False)
        self._say(at)

    def _chosen(self, at: int) -> None:
        self._say(at)
        self.chosen.emit(at)

    def _say(self, at: int) -> None:
        if not self._revisions:
            self.label.clear()
            return
        revision = self._revisions[at]
        position = f"{at + 1} of {len(self._revisions)}: {revision.title}"
        text = f"{position}, {revision.what}" if revision.what else position
        self.label.setText(text)
        self.label.setToolTip(text)
        self.slider.setAccessibleDescription(text)
