"""What was done to the model, and what was not done and why."""

from collections.abc import Sequence

from edgeopt.commands.documents.blocks import Block, Folded, Row, Section, Table, Words, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.facts import Facts, LayerChoice
from edgeopt.graph.ledger import LedgerEntry

_FEW = 6
"""Up to this number of changes get a line each in the summary; more are counted."""
_ALL = 1000


def section(facts: Facts) -> Section | None:
    blocks: list[Block] = []
    if facts.ledger:
        blocks += _passes(facts.ledger)
    elif "ledger" in facts.unknown:
        blocks.append(Words(facts.unknown["ledger"], "faint"))
    else:
        blocks.append(Words("The model is delivered unchanged."))
    if facts.layers:
        blocks += _layers(facts.layers)
    return Section("ledger", "Ledger", tuple(blocks))


def _passes(ledger: tuple[LedgerEntry, ...]) -> list[Block]:
    did = [each for each in ledger if each.applied or each.rolled_back]
    refused = [each for each in ledger if each.refused and not (each.applied or each.rolled_back)]
    idle = [each for each in ledger if not (each.applied or each.refused or each.rolled_back)]
    blocks: list[Block] = []
    if did:
        titles = ("pass", "what it did", ">nodes before", ">after", "against the source")
        blocks.append(Table(columns(*titles), tuple(_row(each) for each in did), "Passes that changed the graph."))
    if refused:
        rows = tuple(Row((each.pass_name, _refusals(each))) for each in refused)
        blocks.append(
            Table(columns("pass", "why it did not apply"), rows, "Passes that found a match but did not apply.")
        )
    if idle:
        named = ", ".join(each.pass_name for each in idle)
        blocks.append(Words(f"{words.several(len(idle), 'pass', 'passes')} found no match: {named}."))
    blocks += [_folded(each) for each in ledger if len(each.applied) > _FEW or len(each.refused) > _FEW]
    return blocks


def _row(each: LedgerEntry) -> Row:
    what = _changes(each)
    if each.rolled_back:
        what = f"Undone: {each.rolled_back}"
    elif each.refused:
        what += f" Refused: {_refusals(each)}"
    counted = each.nodes_before or each.nodes_after
    nodes = (f"{each.nodes_before:,}", f"{each.nodes_after:,}") if counted else (words.UNKNOWN, words.UNKNOWN)
    return Row((each.pass_name, what, *nodes, _error(each) if counted else words.UNKNOWN))


def _changes(each: LedgerEntry) -> str:
    return _listed([(c.what, c.nodes) for c in each.applied], "change")


def _refusals(each: LedgerEntry) -> str:
    return _listed([(r.reason, r.nodes) for r in each.refused], "place")


def _listed(said: Sequence[tuple[str, Sequence[str]]], what: str) -> str:
    if len(said) > _FEW:
        return f"{words.several(len(said), what)}, listed below."
    return " ".join(
        f"{_sentence(one)} ({words.named(nodes)})." if nodes else f"{_sentence(one)}." for one, nodes in said
    )


def _sentence(said: str) -> str:
    return (said[:1].upper() + said[1:]).rstrip(".")


def _error(each: LedgerEntry) -> str:
    if each.snr_db is not None:
        return words.decibels(each.snr_db)
    return "exact by its kind" if each.tolerance_db is None else f"promises {each.tolerance_db:g} dB"


def _folded(each: LedgerEntry) -> Folded:
    rows = [Row((words.named(c.nodes), "done", c.what)) for c in each.applied]
    rows += [Row((words.named(r.nodes), "left", r.reason), "faint") for r in each.refused]
    said = f"{each.pass_name}: all {len(each.applied):,} changes and {len(each.refused):,} refusals"
    return Folded(said, (Table(columns("nodes", "", "what and why"), tuple(rows[:_ALL])),))


def _layers(layers: tuple[LayerChoice, ...]) -> list[Block]:
    forms: dict[str, int] = {}
    for each in layers:
        forms[each.form] = forms.get(each.form, 0) + 1
    counted = ", ".join(f"{count:,} in {form}" for form, count in sorted(forms.items(), key=lambda item: -item[1]))
    rows = tuple(Row((each.layer, each.form, each.reason)) for each in layers[:_ALL])
    table = Table(columns("layer", "form", "why"), rows)
    return [
        Words(f"{words.several(len(layers), 'layer')}: {counted}."),
        Folded("The scheme of each layer, and why", (table,)),
    ]
