"""Asks how to reach the broker of a fleet."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from edgeopt.errors import EdgeoptError
from edgeopt.fleet.mqtt_topics import FLEET, PREFIX
from edgeopt_gui.pages.fleet.connection import Connection
from edgeopt_gui.pages.fleet.file_field import FileField
from edgeopt_gui.pages.fleet.form_words import in_the_form
from edgeopt_gui.widgets.fold import Fold
from edgeopt_gui.widgets.heading import quiet

_LETTERS = 84


class ConnectionDialog(QDialog):
    """The dialog; call `open`, and it deletes itself when closed."""

    submitted = Signal(object)
    """The `Connection`."""

    def __init__(self, parent: QWidget, known: Connection) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setObjectName("fleet-connection")
        self.setWindowTitle("Connect to a fleet")
        self.broker, self.username, self.password = (
            QLineEdit(text) for text in (known.broker, known.username, "")
        )
        self.fleet, self.prefix = QLineEdit(known.fleet), QLineEdit(known.prefix)
        self.broker.setPlaceholderText("mqtts://broker.example.com")
        self.broker.setAccessibleName("Address of the broker")
        self.username.setAccessibleName("User name")
        self.password.setAccessibleName("Password")
        self.password.setEchoMode(QLineEdit.EchoMode.Password)
        self.password.setText(known.password)
        self.password.setPlaceholderText("Not stored; EDGEOPT_BROKER_PASSWORD if empty")
        self.fleet.setAccessibleName("Name of the fleet")
        self.prefix.setAccessibleName("First part of all topics")
        self.password_file = FileField("File with the password", "broker-password", known.password_file)
        self.ca_file = FileField("Authorities that sign the broker's certificate", "broker-ca", known.ca_file)
        self.client_cert = FileField("Certificate of this client", "broker-certificate", known.client_cert)
        self.client_key = FileField("Private key of the certificate", "broker-key", known.client_key)
        self.plain = QCheckBox("Allow mqtt:// to another machine, as in a &VPN")
        self.plain.setChecked(known.allow_plain)
        self.problem = QLabel(wordWrap=True)
        self.problem.setProperty("role", "problem")
        self.problem.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.problem.hide()
        self.more = Fold("Certificates, fleet and topics", self._more())
        self._lay_out(known)

    def connection(self) -> Connection:
        return Connection(
            broker=self.broker.text().strip(),
            fleet=self.fleet.text().strip() or FLEET,
            prefix=self.prefix.text().strip() or PREFIX,
            username=self.username.text().strip(),
            password=self.password.text(),
            password_file=self.password_file.text,
            ca_file=self.ca_file.text,
            client_cert=self.client_cert.text,
            client_key=self.client_key.text,
            allow_plain=self.plain.isChecked(),
        )

    def accept(self) -> None:
        """Stays open, with the reason, for what cannot be an address."""
        connection = self.connection()
        try:
            connection.checked()
        except EdgeoptError as error:
            self.problem.setText(in_the_form(error))
            self.problem.show()
            return
        super().accept()
        self.submitted.emit(connection)

    def _more(self) -> QWidget:
        content = QWidget()
        form = QFormLayout(content)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("&Fleet", self.fleet)
        form.addRow("T&opics begin with", self.prefix)
        form.addRow("Password &file", self.password_file)
        form.addRow("&Authorities", self.ca_file)
        form.addRow("&Certificate", self.client_cert)
        form.addRow("Private &key", self.client_key)
        form.addRow("", self.plain)
        return content

    def _lay_out(self, known: Connection) -> None:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        buttons.button(QDialogButtonBox.StandardButton.Ok).setText("Connect")
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        form = QFormLayout()
        form.addRow("&Broker", self.broker)
        form.addRow("&User name", self.username)
        form.addRow("&Password", self.password)
        line = self.fontMetrics().height()
        rows = QVBoxLayout(self)
        rows.setContentsMargins(line, line, line, line)
        rows.setSpacing(line // 2)
        rows.addWidget(
            quiet("The MQTT broker to which the agents connect. The password is kept until the app ends.")
        )
        rows.addLayout(form)
        rows.addWidget(self.more)
        rows.addWidget(self.problem)
        rows.addStretch()
        rows.addWidget(buttons)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _LETTERS)
        files = (known.password_file, known.ca_file, known.client_cert, known.client_key)
        self.more.set_open(any(files) or known.allow_plain or (known.fleet, known.prefix) != (FLEET, PREFIX))
        self.broker.setFocus()
