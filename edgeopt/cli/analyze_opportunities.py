"""What could be done about a model, by the command that would do it."""

from collections import Counter
from typing import TYPE_CHECKING

from edgeopt.commands.documents.blocks import Block, Commands, Section, Words, lines, section

if TYPE_CHECKING:
    from edgeopt.graph.analysis import Opportunity

_SHOWN_NODES = 2


def opportunities(found: "tuple[Opportunity, ...]") -> Section:
    """By the command that would use them, the command with the largest gain first."""
    title = "Opportunities"
    if not found:
        return section(title, Words("Nothing was found."))
    # The common basis of most estimates is shown once.
    tails = Counter(each.basis.rpartition("; ")[2] for each in found if each.gain_share is not None)
    tail = max(tails, key=lambda key: tails[key], default="")
    parts: list[Block] = [Words(f"Shares of one run, estimated from {tail}.", "faint")] if tail else []
    for command in dict.fromkeys(each.command for each in found):
        parts += [_opportunity(each, tail) for each in found if each.command == command]
        parts.append(Commands((("", command),)))
    return section(title, *parts)


def _opportunity(each: "Opportunity", tail: str) -> Section:
    basis = each.basis.removesuffix(tail).removesuffix("; ") if tail else each.basis
    told = "" if each.gain_share is None else f" ({gain(each)} of a run)"
    changes = "" if each.exact else " It changes the results."
    return section(
        f"{each.title}{told}",
        Words(f"{each.reason}{_named(each.nodes)}{changes}"),
        *lines([f"Estimate: {basis}."] if basis else [], "faint"),
    )


def gain(opportunity: "Opportunity") -> str:
    """`≤ 12%` of a run; empty where there is no estimate."""
    share = opportunity.gain_share
    if share is None:
        return "-"
    return f"≤ {share:.0%}" if share >= 0.01 else "< 1%"


def _named(nodes: tuple[str, ...]) -> str:
    if not nodes:
        return ""
    more = f" and {len(nodes) - _SHOWN_NODES:,} more" if len(nodes) > _SHOWN_NODES else ""
    return f" ({', '.join(nodes[:_SHOWN_NODES])}{more})"
