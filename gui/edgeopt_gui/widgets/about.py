"""About the app, and how to use it."""

from PySide6.QtCore import Qt, qVersion
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QTextBrowser, QVBoxLayout, QWidget

from edgeopt.version import __version__
from edgeopt_gui.actions.book import ActionBook

_STEPS = (
    ("Device", "See the device and the target that edgeopt optimizes for."),
    ("Model", "Open a model or drop it on the window, and inspect it."),
    ("Graph", "See the model as a diagram, where its time goes, and what changed against another model."),
    ("Optimize", "Choose data and an accuracy floor, start the search, and save or deploy the winning bundle."),
    (
        "Precision",
        "Plan a scheme for each layer between accuracy and speed, with the reason why a layer stays float.",
    ),
    ("Compare", "Compare two models, bundles or saved reports: speed, memory, size, outputs and layers."),
    ("Live", "Watch a model, a bundle or an agent run, and deploy to the agent."),
    ("Fleet", "Follow the devices of a broker, and roll out bundles to them in waves."),
)


class _Dialog(QDialog):
    def __init__(self, parent: QWidget, title: str) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        line = self.fontMetrics().height()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(line, line, line, line)
        self._column.setSpacing(line)

    def _finish(self, inside: QWidget) -> None:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        self._column.addWidget(inside, 1)
        self._column.addWidget(buttons)


class AboutDialog(_Dialog):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, "About edgeopt")
        self.setObjectName("about")
        label = QLabel(
            f"edgeopt {__version__}\n\nFinds the fastest deployment of an ONNX model on a device,"
            f" proved by measurement.\n\nQt {qVersion()} · Apache-2.0 licence"
        )
        label.setWordWrap(True)
        label.setMinimumWidth(self.fontMetrics().averageCharWidth() * 50)
        label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._finish(label)


class HelpDialog(_Dialog):
    """The way through the pages, and every shortcut."""

    def __init__(self, book: ActionBook, parent: QWidget) -> None:
        super().__init__(parent, "How to use edgeopt")
        self.setObjectName("help")
        browser = QTextBrowser()
        browser.setAccessibleName("How to use edgeopt")
        browser.setTabChangesFocus(True)
        steps = "".join(_row(f"<b>{title}</b>", text) for title, text in _STEPS)
        shortcuts = "".join(
            _row(_keys(bound.shown.shortcut()), bound.action.title) for bound in book if bound.action.shortcut
        )
        browser.setHtml(f"<h3>The pages</h3>{_table(steps)}<h3>Shortcuts</h3>{_table(shortcuts)}")
        self._finish(browser)
        self.resize(self.fontMetrics().averageCharWidth() * 84, self.fontMetrics().height() * 36)


def _table(rows: str) -> str:
    return f"<table cellpadding='3'>{rows}</table>"


def _row(name: str, text: str) -> str:
    return f"<tr><td style='white-space: pre'>{name}  </td><td>{text}</td></tr>"


def _keys(shortcut: QKeySequence) -> str:
    return shortcut.toString(QKeySequence.SequenceFormat.NativeText)
