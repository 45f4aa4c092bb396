"""All candidates with the reason why they lost, and the variants that never raced."""

from edgeopt.commands.documents.blocks import Block, Folded, Row, Section, Table, Words, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.facts import Facts, Point

_SHOWN = 12


def section(facts: Facts) -> Section | None:
    if "candidates" in facts.unknown:
        return Section("candidates", "Candidates", (Words(facts.unknown["candidates"], "faint"),))
    # What a plan of precision expected of its choices stands with the frontier.
    ordered = [] if facts.made_by == "a plan of precision" else sorted(facts.points, key=_rank)
    if not ordered and not facts.not_made:
        return None
    blocks: list[Block] = []
    if ordered:
        blocks.append(_table(facts, ordered[:_SHOWN]))
    if len(ordered) > _SHOWN:
        blocks.append(Folded(f"{len(ordered) - _SHOWN:,} more candidates", (_table(facts, ordered[_SHOWN:]),)))
    if facts.not_made:
        rows = tuple(Row((each.name, each.title, each.reason)) for each in facts.not_made)
        blocks.append(Table(columns("variant", "what", "why it was not tried"), rows))
    return Section("candidates", "Candidates, and why they lost", tuple(blocks))


def _rank(point: Point) -> tuple[int, float]:
    order = ("winner", "lost", "below the floor", "failed", "not tried")
    place = order.index(point.status) if point.status in order else len(order)
    return place, point.time_ms if point.time_ms is not None else float("inf")


def _table(facts: Facts, points: list[Point]) -> Table:
    measured = any(p.ratio is not None for p in points)
    rows = []
    for p in points:
        winner = p.status == "winner"
        reason = p.reason or ("the result" if winner else "")
        source = facts.speed is not None and p.name == facts.speed.baseline.name
        proof = facts.speed.ratio.median if facts.speed is not None and winner and not source else None
        race, span = words.ratio(p.ratio.median if p.ratio else None), _span(p)
        if source:  # as fast as itself by definition
            race, span, proof = words.ratio(1.0), words.UNKNOWN, 1.0
        speed = (race, span, words.ratio(proof)) if measured else ()
        rows.append(
            Row(
                (
                    p.name,
                    "chosen" if winner and p.basis == "expected" else p.status,
                    words.milliseconds(p.time_ms),
                    *speed,
                    words.decibels(p.snr_db),
                    words.mebibytes(p.peak_bytes),
                    reason,
                ),
                "strong" if winner else "",
            )
        )
    titles = [
        "candidate",
        "",
        ">time",
        *((">race", ">interval of the race", ">proof") if measured else ()),
        ">accuracy",
        ">peak memory",
        "why",
    ]
    return Table(columns(*titles), tuple(rows))


def _span(point: Point) -> str:
    found = point.ratio
    return words.UNKNOWN if found is None or found.rounds == 0 else words.interval(found)
