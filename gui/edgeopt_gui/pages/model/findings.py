"""Opportunities, and what each runtime would run, in words."""

import re
from collections.abc import Iterable, Iterator

from edgeopt import units
from edgeopt.graph.analysis import Analysis, CoverageRow, NodeRow
from edgeopt.graph.analysis.records import Opportunity, name_of
from edgeopt.platform.command_line import split_words
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.widgets.fact import Fact, FactGroup

UNKNOWN = "unknown"
_MAX_NAMES = 12
_NAMED = 2
_WITH_OPERATOR = re.compile(r"[^']+ '(?P<name>.+)'")


def gain_text(opportunity: Opportunity) -> str:
    """Returns `≤ 12%`, the share of a run that can be saved, or that there is no estimate."""
    share = opportunity.gain_share
    if share is None:
        return "no estimate"
    return f"≤ {units.percent(share, 0)}" if share >= 0.01 else "< 1 %"


def results_text(opportunity: Opportunity) -> str:
    return "stay the same" if opportunity.exact else "change"


def opportunity_facts(opportunity: Opportunity) -> tuple[FactGroup, ...]:
    exact = "stay the same except for rounding" if opportunity.exact else "change; the accuracy has to be measured"
    facts = (
        Fact("Why", opportunity.reason),
        Fact("Estimate", opportunity.basis),
        Fact("Results", exact),
        Fact("Nodes", _listed(opportunity.nodes, _MAX_NAMES)),
    )
    return (FactGroup(opportunity.title, tuple(fact for fact in facts if fact.value)),)


def command_of(opportunity: Opportunity) -> Command | None:
    """Returns the command that uses an opportunity; None if it is not an `edgeopt` command."""
    words = split_words(opportunity.command)
    return Command(opportunity.title, tuple(words[1:])) if words[:1] == ["edgeopt"] else None


def may_change(analysis: Analysis) -> bool:
    """Whether passes change the model, or the search for opportunities has not ended, so that it is unknown."""
    # The search also finds what each runtime supports.
    is_known = bool(analysis.opportunities or analysis.coverage)
    commands = map(command_of, analysis.opportunities)
    return not is_known or any(each is not None and each.arguments[0] == "simplify" for each in commands)


def names_of(opportunity: Opportunity) -> frozenset[str]:
    """Returns an opportunity's nodes as listed, and the bare name of each listed as `Conv 'name'`."""
    matches = (_WITH_OPERATOR.fullmatch(node) for node in opportunity.nodes)
    return frozenset(opportunity.nodes) | frozenset(match["name"] for match in matches if match)


def is_named(node: NodeRow, names: frozenset[str]) -> bool:
    """Whether a node is among the names; a node without a name has that of its first output."""
    name = name_of(node)
    return name in names or (bool(node.inside) and f"{node.inside}/{name}" in names)


def runs_text(row: CoverageRow) -> str:
    """Returns `83 of 85`."""
    return UNKNOWN if row.supported is None or row.total is None else f"{row.supported:,} of {row.total:,}"


def boundaries_text(row: CoverageRow) -> str:
    return UNKNOWN if row.boundaries is None else units.count(row.boundaries)


def rest_text(row: CoverageRow) -> str:
    """Returns the operators that a runtime does not run, or why it runs nothing, on one line."""
    if row.unsupported:
        return _listed(row.unsupported, _NAMED)
    if row.reason:
        return row.reason
    return "nothing" if row.supported is not None else UNKNOWN


def coverage_facts(row: CoverageRow) -> tuple[FactGroup, ...]:
    counted = f"{runs_text(row)} nodes, as this runtime counts them" if row.supported is not None else UNKNOWN
    facts = (
        Fact("Backend", row.backend),
        Fact("Version", row.version),
        Fact("Runs", counted),
        Fact("Not its own", _listed(row.unsupported, _MAX_NAMES)),
        Fact("Why", row.reason),
        Fact("Boundaries", _boundaries(row)),
    )
    return (FactGroup(row.title, tuple(fact for fact in facts if fact.value)),)


def _boundaries(row: CoverageRow) -> str:
    if row.boundaries is None:
        return UNKNOWN
    if not row.boundaries:
        return "none: data stays where it is"
    return f"data changes place {units.count(row.boundaries, 'time')} in one run"


def _listed(names: Iterable[str], maximum: int) -> str:
    return ", ".join(_first(tuple(names), maximum))


def _first(names: tuple[str, ...], maximum: int) -> Iterator[str]:
    yield from names[:maximum]
    if len(names) > maximum:
        yield f"and {len(names) - maximum:,} more"
