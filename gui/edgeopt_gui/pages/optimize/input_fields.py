"""Fields of the model's inputs: sizes of open dimensions, and the preparation of pictures."""

import re
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QLabel, QLineEdit, QVBoxLayout, QWidget

from edgeopt.errors import EdgeoptError
from edgeopt_gui.context import Context
from edgeopt_gui.pages.optimize.in_the_app import TITLES
from edgeopt_gui.pages.optimize.texts import large, problem_label, quiet, selectable


class SizesField(QWidget):
    """The sizes of open dimensions as `--shape` takes them, hidden if all sizes of the inputs are fixed."""

    changed = Signal()

    def __init__(
        self, context: Context, example: str, use: str, check: Callable[[tuple[str, ...]], object] | None = None
    ) -> None:
        """`use` says what the sizes are for; `check` raises EdgeoptError if they are invalid."""
        super().__init__()
        self._context, self._check = context, check
        self.line = QLineEdit(placeholderText=example)
        self.line.setAccessibleName("Sizes of the model's open dimensions")
        self.line.textChanged.connect(self._look)
        self.wrong = problem_label()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, self.fontMetrics().height() * 2 // 3, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        for widget in (large(QLabel(TITLES["shape"]), 1.0), self.line, quiet(selectable(QLabel(use))), self.wrong):
            column.addWidget(widget)
        context.inputs_changed.connect(self._offer)
        self._offer()

    @property
    def shape(self) -> tuple[str, ...]:
        return tuple(re.split(r"[;\s]+", text)) if (text := self.line.text().strip(" ;")) else ()

    @property
    def problem(self) -> str:
        """The reason why the sizes cannot be used, as a sentence; "" if they can."""
        try:
            if self._check is not None:
                self._check(self.shape)
        except EdgeoptError as error:
            return error.message
        return ""

    def _look(self) -> None:
        self.wrong.setText(self.problem)
        self.wrong.setVisible(bool(self.problem))
        self.changed.emit()

    def _offer(self) -> None:
        inputs = self._context.inputs
        # Inputs are None while they are unknown; sizes may then be open.
        sizes = [size for tensor in inputs or () for size in (tensor.shape or (None,))]
        _show(self, inputs is None or not all(isinstance(size, int) for size in sizes))


class PreparationBox(QCheckBox):
    """Whether to use the preparation that the import of the model wrote; hidden if there is none."""

    changed = Signal()

    def __init__(self, context: Context, title: str, use: str) -> None:
        """`use` is what happens with the file: "goes into the bundle"."""
        super().__init__(title)
        self._context, self._use = context, use
        self._file: Path | None = None
        self.setChecked(True)
        self.toggled.connect(self.changed)
        context.nodes_changed.connect(self._offer)
        self._offer()

    @property
    def path(self) -> Path | None:
        """Path of the file for `--pre`; None if there is none or it is not wanted."""
        return self._file if self.isChecked() else None

    def _offer(self) -> None:
        subject, analysis = self._context.subject, self._context.analysis
        proof = analysis.imported if analysis is not None else None
        file = (
            subject.path.with_name(proof.pre) if subject is not None and proof is not None and proof.pre else None
        )
        self._file = file if file is not None and file.is_file() else None
        _show(self, self._file is not None)
        if self._file is not None and proof is not None:
            self.setToolTip(f"{self._file.name} {self._use}; it agrees with the original to {proof.pre_db:.0f} dB")
        self.changed.emit()


def _show(widget: QWidget, on: bool) -> None:
    # Shown without a parent, a widget would be a window.
    if not on or widget.parentWidget() is not None:
        widget.setVisible(on)
