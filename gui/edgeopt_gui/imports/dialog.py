"""Asks what an import needs: the model, the Python of its framework, trust, and where to write."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from edgeopt_gui.context import Context
from edgeopt_gui.imports.choices import TITLES, ImportChoices, choices_for, names_in
from edgeopt_gui.widgets import dialogs

PYTHON = "import.python"
"""The setting."""
_LETTERS = 56
_WITHOUT_SHAPES = frozenset({"", "sklearn"})
_WITH_DYNAMIC = frozenset({"torch", "torchscript", "huggingface"})


class ImportDialog(QDialog):
    submitted = Signal(object)
    """The `ImportChoices`."""

    def __init__(self, parent: QWidget, context: Context, choices: ImportChoices) -> None:
        super().__init__(parent)
        self.context = context
        self.setObjectName("import")
        self.setWindowTitle("Import a model")
        self.source = self._line("Model file or folder, or package.module:NAME", "Model")
        self.name = QComboBox(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert)
        self.name.setAccessibleName("Name in the file")
        self.kind = QLabel()
        self.kind.setProperty("role", "muted")
        self.python = self._line("Python of edgeopt itself", TITLES["--python"])
        self.python.setToolTip("Python of the environment with the framework, such as ~/ml/bin/python")
        self.trust = QCheckBox(f"{TITLES['--trust']}: opening it may run code")
        self.data = self._line("Generated", TITLES["--data"])
        self.shapes = self._line("image=1x3x224x224", TITLES["--shape"])
        self.dynamic = self._line("batch", TITLES["--dynamic"])
        self.task = self._line("That of its architecture", TITLES["--task"])
        self.out = self._line("model.onnx", "Model to write")
        self.problem = QLabel(wordWrap=True)
        self.problem.setObjectName("problem")
        self.note = QLabel(wordWrap=True)
        self.note.setProperty("role", "muted")
        self._form = QFormLayout()
        self._buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        self.go = self._buttons.button(QDialogButtonBox.StandardButton.Ok)
        self._lay_out()
        self._fill(choices)
        for line in (self.source, self.python, self.data, self.shapes, self.dynamic, self.task, self.out):
            line.textChanged.connect(self._look)
        self.source.textChanged.connect(self._source_changed)
        self.name.currentTextChanged.connect(self._look)
        self.trust.toggled.connect(self._look)
        self._look()

    @property
    def choices(self) -> ImportChoices:
        source, name = self.source.text().strip(), self.name.currentText().strip()
        source = str(Path(source).expanduser()) if source.startswith("~") else source
        return ImportChoices(
            f"{source}:{name}" if _is_script(source) and name else source,
            self.out.text().strip(),
            self.python.text().strip(),
            self.trust.isChecked() and self._form.isRowVisible(self.trust),
            self.data.text().strip(),
            self.shapes.text().strip() if self._form.isRowVisible(self.shapes) else "",
            self.dynamic.text().strip() if self._form.isRowVisible(self.dynamic) else "",
            self.task.text().strip() if self._form.isRowVisible(self.task) else "",
        )

    def accept(self) -> None:
        choices = self.choices
        if choices.problem:
            return
        self.context.settings.keep(PYTHON, choices.python)
        super().accept()
        self.submitted.emit(choices)

    def _fill(self, choices: ImportChoices) -> None:
        source, _, name = choices.source.rpartition(":")
        is_code = _is_script(source)
        self.source.setText(source if is_code else choices.source)
        self._offer_names()
        if is_code:
            self.name.setEditText(name)
        self.python.setText(choices.python)
        self.trust.setChecked(choices.trust)
        for line, text in (
            (self.data, choices.data),
            (self.shapes, choices.shapes),
            (self.dynamic, choices.dynamic),
            (self.task, choices.task),
            (self.out, choices.out),
        ):
            line.setText(text)

    def _source_changed(self) -> None:
        """Resets the fields that depend on the source."""
        self._offer_names()
        found = choices_for(self.choices.source, self.context.settings.text(PYTHON))
        self.trust.setChecked(False)
        self.out.setText(found.out)
        self.python.setText(found.python)
        self._look()

    def _offer_names(self) -> None:
        self.name.clear()
        source = self.source.text().strip()
        if _is_script(source):
            self.name.addItems(names_in(Path(source)))

    def _look(self) -> None:
        """Shows what this kind of model needs, and what is still missing."""
        choices = self.choices
        kind = choices.kind
        known = kind.kind if kind is not None else ""
        self.kind.setText(kind.title if kind is not None else "")
        self._form.setRowVisible(self.kind, kind is not None)
        self._form.setRowVisible(self.name, _is_script(self.source.text().strip()))
        self._form.setRowVisible(self.trust, kind is not None and known not in {"onnx", "torch"})
        self._form.setRowVisible(self.shapes, known not in _WITHOUT_SHAPES)
        self._form.setRowVisible(self.dynamic, known in _WITH_DYNAMIC)
        self._form.setRowVisible(self.task, known == "huggingface")
        problem = choices.problem
        self.problem.setText(problem)
        self.go.setEnabled(not problem)
        self.note.setText(_written(choices) if choices.has_place else "")

    def _line(self, placeholder: str, name: str) -> QLineEdit:
        line = QLineEdit(placeholderText=placeholder)
        line.setAccessibleName(name)
        return line

    def _with_buttons(self, line: QLineEdit, *buttons: QPushButton) -> QHBoxLayout:
        row = QHBoxLayout()
        row.addWidget(line, 1)
        for button in buttons:
            row.addWidget(button)
        return row

    def _button(self, text: str, what: str, choose: Callable[[], None]) -> QPushButton:
        button = QPushButton(text, autoDefault=False)
        button.setAccessibleName(what)
        button.clicked.connect(choose)
        return button

    def _lay_out(self) -> None:
        form, line = self._form, self.fontMetrics().height()
        form.setSpacing(line // 2)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.source.setMinimumWidth(self.fontMetrics().averageCharWidth() * _LETTERS)
        form.addRow(
            "&Model",
            self._with_buttons(
                self.source,
                self._button("File…", "Choose the file of the model", self._choose_source),
                self._button("Folder…", "Choose the folder of the model", self._choose_folder),
            ),
        )
        form.addRow("", self.kind)
        form.addRow("&Name in the file", self.name)
        form.addRow(
            "&Python",
            self._with_buttons(self.python, self._button("File…", "Choose the Python", self._choose_python)),
        )
        form.addRow("", self.trust)
        form.addRow(
            "&Data", self._with_buttons(self.data, self._button("File…", "Choose the data", self._choose_data))
        )
        form.addRow("&Shapes", self.shapes)
        form.addRow("&Open dimensions", self.dynamic)
        form.addRow("&Task", self.task)
        form.addRow(
            "Model to &write",
            self._with_buttons(
                self.out, self._button("Place…", "Choose the place of the model to write", self._choose_out)
            ),
        )
        form.addRow("", self.note)
        labels = (form.itemAt(row, QFormLayout.ItemRole.LabelRole) for row in range(form.rowCount()))
        fields = {
            "&Model": self.source, "&Python": self.python, "&Data": self.data, "Model to &write": self.out
        }  # fmt: skip
        for label in (item.widget() for item in labels if item is not None):
            if isinstance(label, QLabel) and (field := fields.get(label.text())) is not None:
                label.setBuddy(field)
        self.go.setText("Import")
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(line, line, line, line)
        column.setSpacing(line)
        column.addLayout(form)
        column.addWidget(self.problem)
        column.addWidget(self._buttons)

    def _choose_source(self) -> None:
        self._put(self.source, dialogs.choose_file(self, "Choose a model to import", dialogs.sources(), "model"))

    def _choose_folder(self) -> None:
        self._put(self.source, dialogs.choose_folder(self, "Choose a model folder to import", "model"))

    def _choose_python(self) -> None:
        self._put(self.python, dialogs.choose_file(self, "Choose a Python", "All files (*)", "python"))

    def _choose_data(self) -> None:
        self._put(self.data, dialogs.choose_file(self, "Choose data", dialogs.DATA, "data"))

    def _choose_out(self) -> None:
        name = Path(self.out.text()).name
        self._put(self.out, dialogs.choose_save(self, "Write the model as", dialogs.ONNX, "model", name))

    def _put(self, line: QLineEdit, path: Path | None) -> None:
        if path is not None:
            line.setText(str(path))


def _is_script(source: str) -> bool:
    return source.endswith(".py") and Path(source).is_file()


def _written(choices: ImportChoices) -> str:
    """Returns sentences that name the samples file and the existing files that the import replaces."""
    replaced = [path.name for path in (Path(choices.out), choices.samples) if path.is_file()]
    sentence = f"Its samples are written beside it, as {choices.samples.name}."
    return f"{sentence} Replaces {' and '.join(replaced)}." if replaced else sentence
