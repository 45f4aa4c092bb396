"""The data of a search: which, and what it is good for."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from edgeopt.errors import EdgeoptError
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.pages.optimize.samples import NO_DATA, count_samples, use_of
from edgeopt_gui.pages.optimize.texts import quiet, selectable
from edgeopt_gui.widgets.action_button import ActionButton


class DataField(QWidget):
    counted = Signal()
    """The samples were counted, or could not be."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._background = Background(self)
        self.problem = ""
        """Why the data cannot be used, as a sentence."""
        self.name = QLabel()
        self.name.setTextFormat(Qt.TextFormat.PlainText)
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.use = quiet(selectable(QLabel()))
        row = QHBoxLayout()
        row.addWidget(ActionButton("optimize.choose-data", text="File…"))
        row.addWidget(ActionButton("optimize.choose-folder", text="Folder…"))
        row.addWidget(ActionButton("optimize.clear-data", text="None"))
        row.addStretch()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(self.fontMetrics().height() // 3)
        layout.addWidget(self.name)
        layout.addWidget(self.use)
        layout.addLayout(row)
        context.data_changed.connect(self._look)
        self._look()

    def _look(self) -> None:
        path = self._context.data
        self.problem = ""
        if path is None:
            self.name.setText("None chosen")
            self.name.setToolTip("")
            self.use.setText(NO_DATA)
            self.counted.emit()
            return
        self.name.setText(self.fontMetrics().elidedText(path.name, Qt.TextElideMode.ElideMiddle, self._wide()))
        self.name.setToolTip(str(path))
        self.use.setText("Counting the samples…")
        self._background.do(lambda: (path, count_samples(path)), lambda found: self._told(path, found))

    def _told(self, path: Path, found: tuple[Path, int] | EdgeoptError) -> None:
        if path != self._context.data:
            return  # another one was chosen meanwhile
        if isinstance(found, EdgeoptError):
            self.problem = found.message
            self.use.setText(f"{found.message} {found.hint}".strip())
        else:
            self.use.setText(use_of(found[1]))
        self.counted.emit()

    def _wide(self) -> int:
        return self.fontMetrics().averageCharWidth() * 36
