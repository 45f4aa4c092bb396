"""The sections of a report, in their order."""

from edgeopt.commands.documents.blocks import Section
from edgeopt.commands.report.facts import Facts
from edgeopt.commands.report.sections import (
    accuracy,
    candidates,
    device,
    frontier,
    ledger,
    memory,
    nodes,
    operators,
    processing,
    reproduce,
    speed,
    stages,
    verdict,
)

SECTIONS = (
    verdict.section,
    speed.section,
    processing.section,
    stages.section,
    memory.section,
    accuracy.section,
    frontier.section,
    operators.section,
    nodes.section,
    ledger.section,
    candidates.section,
    device.section,
    reproduce.section,
)


def sections_of(facts: Facts) -> tuple[Section, ...]:
    """Those that have something to say; the first one is the verdict."""
    found = (each(facts) for each in SECTIONS)
    return tuple(section for section in found if section is not None)
