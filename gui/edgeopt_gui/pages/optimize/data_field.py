"""The data of a search: which, and what it is good for."""

from pathlib import Path

from PySide6.QtCore import Signal

from edgeopt.errors import EdgeoptError
from edgeopt_gui.context import Context
from edgeopt_gui.pages.optimize.path_field import PathField
from edgeopt_gui.pages.optimize.samples import NO_DATA, count_samples, use_of


class DataField(PathField):
    counted = Signal()
    """The samples were counted, or could not be."""

    def __init__(self, context: Context) -> None:
        super().__init__("optimize.choose-data", "optimize.choose-folder", "optimize.clear-data")
        self._context = context
        context.data_changed.connect(self._look)
        self._look()

    def _look(self) -> None:
        path = self._context.data
        self.problem = ""
        self.show_name(path, "None chosen")
        if path is None:
            self.use.setText(NO_DATA)
            self.counted.emit()
            return
        self.use.setText("Counting the samples…")
        self.background.do(lambda: (path, count_samples(path)), lambda found: self._told(path, found))

    def _told(self, path: Path, found: tuple[Path, int] | EdgeoptError) -> None:
        if path != self._context.data:
            return  # another one was chosen meanwhile
        if isinstance(found, EdgeoptError):
            self.problem = found.message
            self.use.setText(f"{found.message} {found.hint}".strip())
        else:
            self.use.setText(use_of(found[1]))
        self.counted.emit()
