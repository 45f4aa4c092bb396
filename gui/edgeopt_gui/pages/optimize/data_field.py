"""The data of a search: which, what it is good for, and whether it is for the model that is open."""

from pathlib import Path

from PySide6.QtCore import Signal

from edgeopt.errors import EdgeoptError
from edgeopt.graph.analysis import TensorFacts
from edgeopt_gui.context import Context
from edgeopt_gui.pages.model.language_model import is_language_model
from edgeopt_gui.pages.optimize.path_field import PathField
from edgeopt_gui.pages.optimize.samples import (
    NO_DATA,
    NO_TEXT,
    beside,
    count_samples,
    use_of,
    use_of_audio,
    use_of_text,
)
from edgeopt_gui.pages.optimize.slow import slow
from edgeopt_gui.widgets.action_button import ActionButton


class DataField(PathField):
    counted = Signal()
    """Emitted when the samples were counted, or could not be."""

    def __init__(self, context: Context, page: str = "optimize", without: str = NO_DATA) -> None:
        """`page` is the key of the page with the actions; `without` says what happens without data."""
        super().__init__(f"{page}.choose-data", f"{page}.choose-folder", f"{page}.clear-data")
        self._context = context
        self._without = without
        self._is_waiting = False
        """Whether the use of the data depends on a model that is not read yet."""
        self.takes_texts = False
        """Whether the data of a search are texts: the model is a decoder with a cache."""
        self.beside: Path | None = None
        """Path of a data file beside the model with the model's name; None if there is none, or if the model takes
        texts, as an import writes steps of the cache."""
        self._offer = ActionButton(f"{page}.use-beside")
        self.column.insertWidget(2, self._offer)
        for signal in (context.data_changed, context.inputs_changed, context.subject_changed):
            signal.connect(self._look)
        if without == NO_DATA:  # the other pages have no search
            context.nodes_changed.connect(self._look_for_texts)
        self._look()

    def _look_for_texts(self) -> None:
        """Looks again if what is known of the model changes the use of the data."""
        analysis, path = self._context.analysis, self._context.data
        takes_texts = analysis is not None and is_language_model(analysis)
        if takes_texts != self.takes_texts or (path is not None and self._is_waiting):
            self.takes_texts = takes_texts
            self._look()

    def _look(self) -> None:
        path, inputs, subject = self._context.data, self._context.inputs, self._context.subject
        is_model = subject is not None and subject.kind == "model"
        self.beside = beside(subject.path) if subject is not None and is_model and not self.takes_texts else None
        self._offer.setVisible(path is None and self.beside is not None)
        self.problem = ""
        self.show_name(path, "None chosen")
        if path is None:
            found = f"{self.beside.name} is in the folder of the model. " if self.beside is not None else ""
            self.say(found + (NO_TEXT if self.takes_texts else self._without))
            self.counted.emit()
            return
        self._is_waiting = self._may_be_text(path)
        if self._is_waiting:
            self.say("Reading the model…")
            self.counted.emit()
            return
        takes_texts = self.takes_texts
        model = subject.path if subject is not None and is_model else None
        self.say("Reading the text…" if takes_texts else "Counting the samples…")
        self.background.do(
            lambda: use_of_text(path) if takes_texts else self._use(path, inputs, model),
            lambda found: self._show_result((path, inputs, takes_texts), found),
        )

    def _use(self, path: Path, inputs: tuple[TensorFacts, ...] | None, model: Path | None) -> str:
        """Returns what the page does with the data; only a search takes audio, and only of a speech model."""
        encoder = None
        if model is not None and self._without == NO_DATA:
            encoder = slow("edgeopt.bundle.runtime.locate").encoder_beside(model)
        return use_of(count_samples(path, inputs)) if encoder is None else use_of_audio(path, encoder)

    def _may_be_text(self, path: Path) -> bool:
        """Whether the model is being read, and the file could only be data of a language model."""
        is_unknown = self._context.analysis is None and self._context.read_failure is None
        return self._without == NO_DATA and is_unknown and path.suffix != ".npz" and path.is_file()

    def _show_result(
        self, asked: tuple[Path, tuple[TensorFacts, ...] | None, bool], found: str | EdgeoptError
    ) -> None:
        if asked != (self._context.data, self._context.inputs, self.takes_texts):
            return  # another one was chosen meanwhile, or the model was read
        if isinstance(found, EdgeoptError):
            self.problem = found.message
            self.say(f"{found.message} {found.hint}".strip(), wrong=True)
        else:
            self.say(found)
        self.counted.emit()
