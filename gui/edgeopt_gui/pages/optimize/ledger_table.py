"""The table of what each pass did to the winner."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from edgeopt_gui.pages.optimize.ledger import LedgerRow
from edgeopt_gui.widgets.records import Column, Look, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

_MARKS = {"applied": "✓ applied", "refused": "– refused", "rolled back": "↩ rolled back"}  # noqa: RUF001
_NOTHING = "The model is unchanged: no passes were applied."


def _look(row: LedgerRow) -> Look:
    return "plain" if row.did in {"applied", "rolled back"} else "quiet"


COLUMNS: tuple[Column[LedgerRow], ...] = (
    Column("Pass", lambda r: r.pass_name),
    Column("Did", lambda r: r.did, lambda r: _MARKS.get(r.did, r.did)),
    Column(
        "Nodes", lambda r: r.nodes_after - r.nodes_before, lambda r: r.count, "right",
        title_tip="How many nodes the model has, before the pass → after it",
    ),
    Column("Change or reason", lambda r: r.what, tip=lambda r: r.details, stretch=True),
)  # fmt: skip


class LedgerTable(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.records: RecordsModel[LedgerRow] = RecordsModel(COLUMNS, lambda row: row.position, _look, self)
        self.table = RecordsTable(self.records, "Ledger of the winner")
        self._details = QLabel()
        self._details.setWordWrap(True)
        self._details.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.table.picked.connect(self._show_details)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.table, 1)
        layout.addWidget(self._details)

    def set_rows(self, rows: tuple[LedgerRow, ...]) -> None:
        self.records.set_rows(rows)
        self.table.fit()
        self.table.setVisible(bool(rows))
        self._show_details(None)

    def _show_details(self, row: LedgerRow | None) -> None:
        text = row.details if row is not None else "" if self.records.rows else _NOTHING
        self._details.setText(text)
        self._details.setVisible(bool(text))
