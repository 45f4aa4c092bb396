"""The ledger's rows against what the search wrote."""

import json
import subprocess
import sys

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from edgeopt_gui.pages.optimize.board import Board, Row
from edgeopt_gui.pages.optimize.candidates import Candidates
from edgeopt_gui.pages.optimize.ledger import LedgerRow, ledger_rows
from edgeopt_gui.pages.optimize.ledger_table import LedgerTable
from edgeopt_gui.pages.optimize.result import read_result
from edgeopt_gui.pages.optimize.scatter import Scatter, dots


@pytest.fixture(scope="module")
def written(tmp_path_factory, conv_model):
    """The ledger of the exact rewrites, by the command line; a short search may not get as far."""
    out = tmp_path_factory.mktemp("ledger") / "simple.onnx"
    command = [sys.executable, "-m", "edgeopt", "simplify", str(conv_model), "-o", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["data"]["ledger"]


@pytest.fixture
def cleaned(found, written):
    """The outcome as if a quantized variant had won: its passes are those of the cleaned model."""
    variants = [
        {"name": "cleaned", "title": "exact graph rewrites", "ledger": written},
        {"name": "int8", "title": "8-bit", "ledger": []},
    ]
    winner = {**found["winner"], "variant": "int8"}
    return read_result({**found, "variants": variants, "winner": winner})


def test_every_pass_has_a_row_in_the_order_in_which_it_ran(cleaned, written):
    rows = ledger_rows(cleaned)
    assert list(dict.fromkeys(row.pass_name for row in rows)) == [entry["pass_name"] for entry in written]
    assert [row.position for row in rows] == list(range(len(rows)))


def test_what_was_applied_shows_the_nodes_before_and_after(cleaned):
    rows = [row for row in ledger_rows(cleaned) if row.nodes_after < row.nodes_before]
    assert rows
    assert all(row.did == "applied" and row.count == f"{row.nodes_before} → {row.nodes_after}" for row in rows)
    assert any("Identity" in row.details for row in rows)


def test_the_source_model_has_no_ledger(cleaned):
    kept = msgspec.structs.replace(cleaned, winner=cleaned.baseline)
    assert ledger_rows(kept) == ()


def test_refused_and_rolled_back_say_why(found):
    entries = [
        {"pass_name": "a", "refused": [{"reason": "the weights are shared", "nodes": ["n1"]}]},
        {"pass_name": "b", "applied": [{"what": "changed much"}], "rolled_back": "the outputs moved: 12 dB"},
        {"pass_name": "c"},
    ]
    variants = [{"name": "cleaned", "title": "t", "ledger": entries}]
    winner = {**found["winner"], "variant": "cleaned"}
    refused, back, nothing = ledger_rows(read_result({**found, "variants": variants, "winner": winner}))
    assert (refused.did, refused.what) == ("refused", "the weights are shared")
    assert (back.did, back.what) == ("rolled back", "the outputs moved: 12 dB")
    assert (nothing.did, nothing.details) == ("nothing to do", "c: nothing to do")


def test_many_nodes_are_counted_and_not_all_named(found):
    nodes = [f"node{k}" for k in range(5000)]
    entry = {"pass_name": "a", "applied": [{"what": "removed them", "nodes": nodes}]}
    winner = {**found["winner"], "variant": "cleaned"}
    variants = [{"name": "cleaned", "title": "t", "ledger": [entry]}]
    (row,) = ledger_rows(read_result({**found, "variants": variants, "winner": winner}))
    assert row.details.endswith("and 4,988 more")


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


ROWS_SCATTER = (
    Row("fast", "winner", speedup=3.0, accuracy_db=35.0),
    Row("exact", "lost", speedup=1.5, accuracy_db=200.0),
    Row("source", "baseline", speedup=1.0, accuracy_db=200.0),
    Row("unknown", "failed"),
)


@pytest.fixture
def scatter(qtbot, context):
    made = Scatter()
    qtbot.addWidget(made)
    made.resize(500, 300)
    made.show_rows(ROWS_SCATTER, 30.0)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_the_proof_counts_where_there_is_one():
    (dot,) = dots([Row("a", "winner", speedup=3.04, accuracy_db=35.0, proved=True)])
    assert dot.speed == 3.04


def test_faster_is_at_the_right_and_more_accurate_above(scatter):
    assert [dot.name for dot in scatter.dots] == ["source", "exact", "fast"]
    source, exact, fast = map(scatter.place, scatter.dots)
    assert source.x() < exact.x() < fast.x()
    assert source.y() == exact.y() < fast.y()


def test_a_legend_says_what_filled_points_are(scatter):
    made = [Row("front", "lost", speedup=2.0, accuracy_db=60.0, front=True), *ROWS_SCATTER]
    scatter.show_rows(made)
    assert [(kind, filled) for kind, _, filled in scatter.legend()] == [
        ("winner", True),
        ("Pareto front", True),
        ("beaten by another", False),
    ]
    colour = next(colour for kind, colour, _ in scatter.legend() if kind == "Pareto front")
    image = scatter.grab().toImage()
    top = {
        image.pixelColor(x, y).name() for x in range(image.width()) for y in range(scatter.fontMetrics().height())
    }
    assert colour.name() in top


def test_a_click_picks_the_candidate(qtbot, scatter):
    fast = scatter.dots[-1]
    with qtbot.waitSignal(scatter.clicked) as clicked:
        qtbot.mouseClick(scatter, Qt.MouseButton.LeftButton, pos=scatter.place(fast).toPoint())
    assert clicked.args == ["fast"]
    assert scatter.picked == "fast"


def test_the_arrow_keys_go_from_one_to_the_next(qtbot, scatter):
    for expected in ("source", "exact", "fast", "fast"):
        with qtbot.waitSignal(scatter.clicked) as clicked:
            qtbot.keyClick(scatter, Qt.Key.Key_Right)
        assert clicked.args == [expected]


def test_what_is_clicked_is_picked_in_the_table_whatever_it_shows(qtbot, context):
    table = Candidates()
    qtbot.addWidget(table)
    board = Board()
    board.rows = {name: Row(name, "lost", front=name != "b") for name in "abc"}
    table.show_board(board)
    table.only_front.click()
    table.show_picked("b")
    assert table.table.current.name == "b"
