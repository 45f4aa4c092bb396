"""The sections of a report, in their order."""

from edgeopt.commands.report.facts import ReportFacts
from edgeopt.commands.report.sections import candidates, framework, model, speed, verdict
from edgeopt.views.blocks import Section

SECTIONS = (
    verdict.verdict_section,
    speed.speed_section,
    framework.framework_section,
    speed.processing_section,
    speed.stages_section,
    speed.memory_section,
    candidates.accuracy_section,
    candidates.frontier_section,
    model.operators_section,
    model.nodes_section,
    model.ledger_section,
    candidates.candidates_section,
    verdict.device_section,
    verdict.reproduce_section,
)


def sections_of(facts: ReportFacts) -> tuple[Section, ...]:
    """Returns the sections that have content; the first one is the verdict."""
    found = (each(facts) for each in SECTIONS)
    return tuple(section for section in found if section is not None)
