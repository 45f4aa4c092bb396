"""The head of a finished search: the verdict, what it rests on, before and after."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from edgeopt.units import count
from edgeopt_gui.pages.optimize.in_the_app import without_flags
from edgeopt_gui.pages.optimize.texts import by_mouse, large, quiet, selectable
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.flow import FlowLayout

if TYPE_CHECKING:
    from edgeopt.pipeline.outcome import Outcome
    from edgeopt_gui.pages.optimize.result import Compared


_SHOWN_WARNINGS = 3


class Verdict(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.headline = large(QLabel(), 2.0)
        self.headline.setObjectName("headline")
        self.explanation = selectable(QLabel())
        self.limits = by_mouse(QLabel())
        self.limits.setObjectName("limits")
        self.limits.setProperty("role", "problem")
        self.limits.setAccessibleName("What limits the conclusion")
        self.proof = quiet(selectable(QLabel()))
        self.note = selectable(QLabel())
        self.note.setObjectName("note")
        self.retry = ActionButton(text="Choose another place…")
        self._tiles = [_Tile() for _ in range(3)]
        height = self.fontMetrics().height()
        tiles, buttons = FlowLayout(height * 3 // 2, height // 2), FlowLayout(height // 2, height // 3)
        for tile in self._tiles:
            tiles.addWidget(tile)
        self.buttons: dict[str, ActionButton] = {}
        for key, text in (
            ("optimize.save", "Save as…"),
            ("optimize.report", "Report…"),
            ("optimize.export-as", "Export…"),
            ("optimize.deploy", "Deploy…"),
            ("optimize.live", "Watch live"),
            ("optimize.compare", "Compare with the source"),
        ):
            self.buttons[key] = ActionButton(key, text=text)
            buttons.addWidget(self.buttons[key])
        self.condition = QLabel()
        self.condition.setObjectName("condition")
        self._again = QWidget()
        again = QHBoxLayout(self._again)
        again.setContentsMargins(0, 0, 0, 0)
        again.addWidget(self.condition)
        self._fresh = ActionButton("optimize.fresh")
        again.addWidget(self._fresh)
        self._longer = ActionButton("optimize.longer")
        again.addWidget(self._longer)
        again.addStretch()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(height // 2)
        layout.addWidget(self.headline)
        layout.addWidget(self.explanation)
        layout.addWidget(self.limits)
        layout.addLayout(tiles)
        layout.addWidget(self.proof)
        layout.addWidget(self._again)
        layout.addLayout(buttons)
        noted = QHBoxLayout()
        noted.addWidget(self.note, 1)
        noted.addWidget(self.retry)
        layout.addLayout(noted)
        self.limits.hide()
        self._again.hide()
        self.say("")

    def set(self, result: "Outcome") -> None:
        from edgeopt_gui.pages.optimize.result import (
            comparison,
            condition,
            explanation_of,
            headline_of,
            limits,
            proof_of,
        )

        self.headline.setText(headline_of(result))
        self.explanation.setText(explanation_of(result))
        self.proof.setText(proof_of(result))
        self.condition.setText(condition(result, datetime.now(UTC)))
        self.condition.setVisible(bool(self.condition.text()))
        undecided = result.verdict == "undecided"
        self._fresh.setVisible(bool(result.from_cache) or undecided)
        self._longer.setVisible(undecided)
        self._again.setVisible(bool(self.condition.text()) or undecided)
        found = limits(result)
        shown, more = found[:_SHOWN_WARNINGS], len(found) - _SHOWN_WARNINGS
        also = [f"{count(more, 'more warning')} in the tab Warnings."] if more > 0 else []
        self.limits.setText("\n".join(f"⚠ {without_flags(each)}" for each in (*shown, *also)))
        self.limits.setVisible(bool(shown))
        for tile, compared in zip(self._tiles, comparison(result), strict=True):
            tile.set(compared)

    def say(self, sentence: str, retry: str = "") -> None:
        """Shows the result of saving; `retry` is the key of the action that saves again elsewhere."""
        self.retry.set_key(retry)
        self.note.setText(sentence)
        self.note.setVisible(bool(sentence))


class _Tile(QWidget):
    """A tile with a caption, the present value, and the previous one."""

    def __init__(self) -> None:
        super().__init__()
        self._caption, self._value, self._was = quiet(QLabel()), large(QLabel(), 1.3), quiet(QLabel())
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for label in (self._caption, self._value, self._was):
            column.addWidget(label)

    def set(self, compared: "Compared") -> None:
        self._caption.setText(compared.what)
        self._value.setText(compared.after)
        was = [] if compared.before in {"", "reference"} else [f"was {compared.before}"]
        self._was.setText(", ".join([*was, *([compared.change] if compared.change else [])]))
        self._value.setAccessibleName(f"{compared.what}: {compared.after}, {self._was.text()}")
