"""The data of a search: which, what it is good for, and whether it is for the model that is open."""

from pathlib import Path

from PySide6.QtCore import Signal

from edgeopt.errors import EdgeoptError
from edgeopt.graph.analysis import TensorFacts
from edgeopt_gui.context import Context
from edgeopt_gui.pages.optimize.path_field import PathField
from edgeopt_gui.pages.optimize.samples import NO_DATA, beside, count_samples, use_of
from edgeopt_gui.widgets.action_button import ActionButton


class DataField(PathField):
    counted = Signal()
    """Emitted when the samples were counted, or could not be."""

    def __init__(self, context: Context, page: str = "optimize", without: str = NO_DATA) -> None:
        """`page` is the key of the page with the actions; `without` says what happens without data."""
        super().__init__(f"{page}.choose-data", f"{page}.choose-folder", f"{page}.clear-data")
        self._context = context
        self._without = without
        self.beside: Path | None = None
        """Path of a data file beside the model with the model's name; None if there is none."""
        self._offer = ActionButton(f"{page}.use-beside")
        self.column.insertWidget(2, self._offer)
        for signal in (context.data_changed, context.inputs_changed, context.subject_changed):
            signal.connect(self._look)
        self._look()

    def _look(self) -> None:
        path, inputs, subject = self._context.data, self._context.inputs, self._context.subject
        self.beside = beside(subject.path) if subject is not None and subject.kind == "model" else None
        self._offer.setVisible(path is None and self.beside is not None)
        self.problem = ""
        self.show_name(path, "None chosen")
        if path is None:
            found = f"{self.beside.name} is in the folder of the model. " if self.beside is not None else ""
            self.say(found + self._without)
            self.counted.emit()
            return
        self.say("Counting the samples…")
        self.background.do(
            lambda: (path, count_samples(path, inputs)), lambda found: self._show_result(path, inputs, found)
        )

    def _show_result(
        self, path: Path, inputs: tuple[TensorFacts, ...] | None, found: tuple[Path, int] | EdgeoptError
    ) -> None:
        if (path, inputs) != (self._context.data, self._context.inputs):
            return  # another one was chosen meanwhile, or the model was read
        if isinstance(found, EdgeoptError):
            self.problem = found.message
            self.say(f"{found.message} {found.hint}".strip(), wrong=True)
        else:
            self.say(use_of(found[1]))
        self.counted.emit()
