"""The table of the winner's passes."""

from PySide6.QtTest import QAbstractItemModelTester

from edgeopt_gui.pages.optimize.ledger import LedgerRow
from edgeopt_gui.pages.optimize.ledger_table import LedgerTable

ROWS = (
    LedgerRow(0, "identities", "applied", "removed 1 node", ("Identity 'same'",), 6, 5),
    LedgerRow(1, "dead-nodes", "nothing to do", "", (), 5, 5),
)


def test_a_picked_pass_names_its_nodes(qtbot, context):
    ledger = LedgerTable()
    qtbot.addWidget(ledger)
    QAbstractItemModelTester(ledger.records, QAbstractItemModelTester.FailureReportingMode.Fatal, ledger)
    ledger.show()
    ledger.set_rows(ROWS)
    ledger.table.pick(0)
    assert "Identity 'same'" in ledger._details.text()
    assert ledger._details.isVisible()


def test_no_passes_are_explained(qtbot, context):
    ledger = LedgerTable()
    qtbot.addWidget(ledger)
    ledger.show()
    ledger.set_rows(())
    assert "no pass" in ledger._details.text()
    assert not ledger.table.isVisible()
