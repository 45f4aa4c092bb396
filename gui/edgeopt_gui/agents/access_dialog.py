"""Asks for what an agent wants before it answers: its access token, and the fingerprint of its certificate."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from edgeopt.errors import EdgeoptError
from edgeopt.fleet import pairing
from edgeopt.fleet.address import parse
from edgeopt.fleet.transport import normal_fingerprint
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.widgets.states import OPENS_A_MODEL

_LETTERS = 56
_CODES = frozenset({"no-token", "wrong-token", "wrong-role", "unknown-certificate", "wrong-fingerprint"})


def wants_access(ending: Ending) -> bool:
    """Whether the agent would answer with another token or fingerprint."""
    return ending.code in _CODES


def ways_on(ending: Ending, *, can_start: bool) -> tuple[str, str]:
    """Returns the keys of the actions to offer after a watch failed; the second is "" if there is only one."""
    usual = "live.start" if can_start else OPENS_A_MODEL
    return ("live.access", usual) if wants_access(ending) else (usual, "")


class AccessDialog(QDialog):
    kept = Signal(str)
    """The address of the agent, whose token and fingerprint are now in the pairings of this user."""

    def __init__(self, parent: QWidget, url: str) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Access to the agent")
        self._url = url
        about = QLabel(
            f"For the agent at {url}. On the device, edgeopt-agent token add NAME makes a token, and "
            "edgeopt-agent fingerprint shows the fingerprint of its certificate. Both are kept with your "
            "pairings, for you alone. A field left empty keeps what is known."
        )
        about.setWordWrap(True)
        self.token, self.fingerprint = QLineEdit(), QLineEdit()
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.token.setAccessibleName("Access token")
        self.fingerprint.setPlaceholderText("SHA256:…")
        self.fingerprint.setAccessibleName("Fingerprint of the certificate")
        self.token.setMinimumWidth(self.fontMetrics().averageCharWidth() * _LETTERS)
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        buttons.button(QDialogButtonBox.StandardButton.Ok).setText("Connect")
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        form = QFormLayout()
        form.addRow("Access &token", self.token)
        form.addRow("&Fingerprint", self.fingerprint)
        rows = QVBoxLayout(self)
        line = self.fontMetrics().height()
        rows.setContentsMargins(line, line, line, line)
        rows.setSpacing(line)
        rows.addWidget(about)
        rows.addLayout(form)
        rows.addWidget(self.problem)
        rows.addWidget(buttons)
        self.token.setFocus()

    def accept(self) -> None:
        """Stays open, with the reason, for what cannot be a token or fingerprint."""
        try:
            url = self._keep()
        except EdgeoptError as error:
            self.problem.setText(f"{error.message} {error.hint}")
            self.problem.show()
            return
        super().accept()
        self.kept.emit(url)

    def _keep(self) -> str:
        token, typed = self.token.text().strip(), self.fingerprint.text().strip()
        address = parse(self._url, token, normal_fingerprint(typed) if typed else "")
        known = pairing.known_pairings().get(address.url, pairing.Pairing())
        fingerprint = address.fingerprint or known.fingerprint
        pairing.store_pairing(address.url, pairing.Pairing(token or known.token, fingerprint))
        return address.url
