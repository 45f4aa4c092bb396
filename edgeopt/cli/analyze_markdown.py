"""An analysis as a Markdown document."""

from typing import TYPE_CHECKING

from edgeopt.cli import analyze_sections as sections
from edgeopt.cli.analyze_sections import Section
from edgeopt.cli.analyze_show import gain
from edgeopt.cli.markdown import plain, table

if TYPE_CHECKING:
    from edgeopt.graph.analysis import Analysis, Opportunity, OpTimes

_KERNELS = 40


def document(analysis: "Analysis", nodes: bool = False, weights: bool = False, looked: bool = True) -> str:
    """All that the terminal shows, in the same order; opportunities only where somebody `looked` for them."""
    found = [
        sections.summary(analysis),
        sections.work(analysis),
        sections.ports(analysis),
        sections.dimensions(analysis),
        sections.by_category(analysis),
        sections.top_nodes(analysis),
        sections.operators(analysis),
        sections.weights(analysis, weights),
        sections.nodes(analysis) if nodes else None,
    ]
    parts = [f"# {plain(analysis.name)}", *(_section(each) for each in found if each is not None)]
    if looked:
        parts.append("## What could be done")
        parts += [_opportunity(each) for each in analysis.opportunities] or ["Nothing was found."]
    covered = sections.coverage(analysis)
    parts += [_section(covered)] if covered is not None else []
    parts += [_times(each) for each in analysis.op_times]
    if analysis.warnings:
        parts.append("## Notes\n\n" + "\n".join(f"- {plain(warning)}" for warning in analysis.warnings))
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
    head = f"## {plain(section.title)}\n\n" if section.title else ""
    note = f"\n\n{plain(section.note)}" if section.note else ""
    return head + table(section.columns, section.rows, section.right) + note


def _opportunity(each: "Opportunity") -> str:
    share = gain(each)
    told = "" if share == "-" else f" ({share} of a run)"
    nodes = f" {len(each.nodes):,} nodes." if each.nodes else ""
    changes = "" if each.exact else " It changes the results."
    return (
        f"### {plain(each.title)}{told}\n\n{plain(each.reason)}{nodes}{changes} "
        f"Estimate: {plain(each.basis)}.\n\n```\n{each.command}\n```"
    )


def _times(times: "OpTimes") -> str:
    head = f"## Time by node on {times.backend} {times.version}".rstrip()
    if times.reason:
        return f"{head}\n\n{plain(times.reason)}"
    rows = tuple(
        (
            row.operator,
            ", ".join(row.members[:3]) + (f" and {len(row.members) - 3} more" if len(row.members) > 3 else "")
            or "unattributed",
            sections.milliseconds(row.time_ms),
            f"{row.share:.1%}",
            row.bound,
        )
        for row in sorted(times.rows, key=lambda row: -row.time_ms)[:_KERNELS]
    )
    told = (
        f"{sections.milliseconds(times.run_ms)} a run while profiling, {sections.milliseconds(times.kernels_ms)} "
        f"of it in kernels, {times.attributed_share:.1%} of that with nodes of the model behind it."
    )
    kernels = table(("kernel", "nodes", "time", "share", "bound by"), rows, frozenset({2, 3}))
    return f"{head}\n\n{told}\n\n{kernels}"
