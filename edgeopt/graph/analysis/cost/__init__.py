"""Minimum cost of one run of an operator, computed from shapes alone.

A multiplication with the addition of its product is one MAC and two operations; any other function of a number (a
sum, a comparison, an exponential) is one operation. An unknown figure is None with a reason, never zero.
"""

from collections.abc import Callable

from edgeopt.graph.analysis.categories import MICROSOFT_DOMAINS, STANDARD_DOMAINS
from edgeopt.graph.analysis.cost import elements, layers
from edgeopt.graph.analysis.cost.call import (
    Arithmetic,
    Attribute,
    Call,
    Operand,
    Unknown,
    read_bytes,
    written_bytes,
)
from edgeopt.graph.analysis.records import Cost

__all__ = ["RULES", "Arithmetic", "Attribute", "Call", "Operand", "Unknown", "arithmetic", "cost_of"]

RULES = {**elements.RULES, **layers.RULES}
DEPENDS_ON_DATA = {
    "ImageDecoder": "the size of a picture depends on the data",
    "TfIdfVectorizer": "the number of n-grams depends on the data",
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "Tokenizer"),
        "strings have no fixed length",
    ),
    "Gradient": "it represents another graph, which exists only in training",
}


def arithmetic(call: Call) -> Arithmetic:
    """Counts the MACs and other operations of one run; raises Unknown if the shapes do not determine them."""
    rule = None
    if call.domain in MICROSOFT_DOMAINS:
        rule = layers.OF_MICROSOFT.get(call.operator) or RULES.get(call.operator)
    elif call.domain in STANDARD_DOMAINS:
        rule = RULES.get(call.operator)
    if rule is None:
        own = f" of the domain '{call.domain}'" if call.domain not in STANDARD_DOMAINS else ""
        raise Unknown(DEPENDS_ON_DATA.get(call.operator) or f"the cost of {call.operator}{own} is not known")
    try:
        return rule(call)
    except (IndexError, ValueError, KeyError) as error:
        # The operator does not follow its definition, as in hand-made or damaged models.
        raise Unknown(f"its shapes do not fit {call.operator}") from error


def cost_of(call: Call) -> Cost:
    """Computes the figures that the shapes allow; the others are None, with the first reason."""
    reasons: list[Unknown] = []

    def known_or_none(figure: Callable[[], int]) -> int | None:
        try:
            return figure()
        except Unknown as reason:
            reasons.append(reason)
            return None

    operations: Arithmetic | None = None
    try:
        operations = arithmetic(call)
    except Unknown as reason:
        reasons.append(reason)
    return Cost(
        None if operations is None else operations.macs,
        None if operations is None else operations.operations,
        known_or_none(lambda: read_bytes(call)),
        known_or_none(lambda: written_bytes(call)),
        str(reasons[0]) if reasons else "",
        reasons[0].kind if reasons else "",
    )
