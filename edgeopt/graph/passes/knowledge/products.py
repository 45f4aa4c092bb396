"""An Einsum's equation as a matrix product: which of its dimensions is what, and in which order they come.

Of two operands, every index is one of four kinds: batch (in both and in the result), inner (in both and summed),
rows (in the first alone), columns (in the second alone).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

_UNNAMED = "αβγδεζηθ"
"""The dimensions behind `...`, counted from the last."""

Lengths = Mapping[str, int | None]
"""What is known of the length of an index; None where it is open."""


@dataclass(frozen=True, slots=True)
class Equation:
    """The indices of each operand and of the result, a letter a dimension."""

    terms: tuple[str, ...]
    result: str


def read(text: str, ranks: Sequence[int | None]) -> Equation | str:
    """The equation of operands with these numbers of dimensions, or why it cannot be read."""
    left, arrow, right = text.replace(" ", "").partition("->")
    letters, terms = left.replace(",", "").replace(".", ""), left.split(",")
    misfit = f"its equation '{text}' does not fit its operands"
    if len(terms) != len(ranks):
        return misfit
    if not arrow:
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in letters if letters.count(c) == 1))
    if any("..." in term and rank is None for term, rank in zip(terms, ranks, strict=True)):
        return "the number of dimensions of '...' is not known"
    behind = [_behind(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    if max(behind) > len(_UNNAMED):
        return "'...' covers too many dimensions"
    named = [term.replace("...", _unnamed(count)) for term, count in zip(terms, behind, strict=True)]
    result = right.replace("...", _unnamed(max(behind)))
    if any(rank is not None and len(term) != rank for term, rank in zip(named, ranks, strict=True)):
        return misfit
    if set(result) - set("".join(named)) or len(set(result)) != len(result):
        return misfit
    if twice := next((c for term in named for c in term if term.count(c) > 1), ""):
        return f"'{twice}' is twice in one operand, which takes its diagonal"
    return Equation(tuple(named), result)


def _behind(term: str, rank: int | None) -> int:
    return 0 if "..." not in term or rank is None else rank - len(term.replace("...", ""))


def _unnamed(count: int) -> str:
    return _UNNAMED[:count][::-1] if count > 0 else ""


def called(index: str) -> str:
    """An index as a reader of the equation knows it."""
    return "..." if index in _UNNAMED else index


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """One way to write an equation as a matrix product; each group of indices becomes one dimension."""

    swapped: bool
    """The second operand comes first."""
    left: tuple[str, ...]
    right: tuple[str, ...]
    out: tuple[str, ...]


def ways(equation: Equation) -> Iterator[MatrixForm]:
    """All that are worth a thought: either operand first, the inner indices in the order of either."""
    for swapped in (False, True):
        one, other = equation.terms[::-1] if swapped else equation.terms
        batch = "".join(c for c in equation.result if c in one and c in other)
        rows = "".join(c for c in equation.result if c in one and c not in other)
        columns = "".join(c for c in equation.result if c in other and c not in one)
        inner = [c for c in one if c in other and c not in equation.result]
        for order in dict.fromkeys(("".join(inner), "".join(c for c in other if c in inner))):
            if batch:
                yield MatrixForm(swapped, (*batch, rows, order), (*batch, order, columns), (*batch, rows, columns))
            else:
                # A matrix goes with all rows of the first operand, in however many dimensions they lie.
                yield MatrixForm(swapped, (*rows, order), (order, columns), (*rows, columns))


def summed(equation: Equation) -> str:
    """The indices that are in both operands and not in the result."""
    one, other = equation.terms
    return "".join(c for c in one if c in other and c not in equation.result)


def crosses(equation: Equation) -> bool:
    """Each operand has an index of its own: every number of one meets every number of the other."""
    one, other = equation.terms
    return bool(set(one) - set(other)) and bool(set(other) - set(one))


def alone(equation: Equation) -> str:
    """The indices that are summed within one operand."""
    letters = "".join(equation.terms)
    return "".join(c for c in letters if c not in equation.result and letters.count(c) == 1)


def joined(groups: Sequence[str], lengths: Lengths) -> list[int] | str | None:
    """The shape that makes one dimension of each group, and None where every group is one already.

    Where more than one dimension is open, the index that is one too many.
    """
    if all(len(group) == 1 for group in groups):
        return None
    shape = []
    for place, group in enumerate(groups):
        known = [lengths[c] for c in group]
        if None not in known:
            shape.append(prod(length for length in known if length is not None))
        elif all(len(before) == 1 for before in groups[: place + 1]):
            shape.append(0)  # copied from where it stands already
        elif -1 in shape:
            return next(c for c in group if lengths[c] is None)
        else:
            shape.append(-1)
    return shape


def parted(groups: Sequence[str], lengths: Lengths) -> list[int] | str | None:
    """The same the other way: the shape in which every index is a dimension again."""
    if all(len(group) == 1 for group in groups):
        return None
    shape: list[int] = []
    for place, group in enumerate(groups):
        for c in group:
            length = lengths[c]
            if length is not None:
                shape.append(length)
            elif all(len(before) == 1 for before in groups[: place + 1]):
                shape.append(0)
            elif -1 in shape:
                return c
            else:
                shape.append(-1)
    return shape
