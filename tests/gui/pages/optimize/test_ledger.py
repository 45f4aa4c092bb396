"""The ledger's rows against what the search wrote."""

import json
import subprocess
import sys

import msgspec
import pytest

from edgeopt_gui.pages.optimize.ledger import ledger_rows
from edgeopt_gui.pages.optimize.result import read_result


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
