"""The framework of the source model: its speed beside that of the bundle, and the proof of the import."""

from edgeopt.commands.report.facts import ReportFacts
from edgeopt.measure.report import OriginalSpeed
from edgeopt.views import words
from edgeopt.views.blocks import Block, Row, Section, Table, WordsBlock, columns, rows
from edgeopt.views.imports import import_facts
from edgeopt.views.originals import how_it_ran, original_speed


def framework_section(facts: ReportFacts) -> Section | None:
    blocks: list[Block] = []
    if facts.original is not None:
        blocks += [_speeds(facts, facts.original), WordsBlock(original_speed(facts.original))]
    if facts.imported is not None:
        blocks.append(Table(columns("", "import"), rows(*import_facts(facts.imported))))
    return Section("framework", "Framework", tuple(blocks)) if blocks else None


def _speeds(facts: ReportFacts, found: OriginalSpeed) -> Table:
    """Tabulates the original framework, plain ONNX Runtime, and the bundle."""
    run, speed = found.run, facts.speed
    name, ratio = f"{run.side} in {how_it_ran(run)}", str(found.speedup or "")
    made = [Row((name, words.milliseconds(found.original_ms), ratio))]
    if speed is not None:
        made += [
            Row((speed.baseline.name, words.milliseconds(speed.baseline.latency_ms), str(speed.ratio))),
            Row((speed.result.name, words.milliseconds(speed.result.latency_ms), ""), "strong"),
        ]
    return Table(
        columns("candidate", ">a run", ">the bundle is"),
        tuple(made),
        "The framework was measured against the bundle after the proof, so compare the ratios, not the times.",
    )
