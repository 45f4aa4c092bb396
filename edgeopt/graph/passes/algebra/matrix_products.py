"""Replacement of Einsum by matrix products between transposes and reshapes, for which runtimes have kernels.

Indices in both operands and in the result are the batch; those in both and not in the result are inner and
summed; those of the first operand alone are rows, those of the second alone columns. Each kind becomes one
dimension:

    Einsum(a, b) = Transpose(Reshape(MatMul(a', b')))  a' = (batch, rows, inner), b' = (batch, inner, columns)
    Einsum(a, b) = Mul(a', b')                         where nothing is summed, and rows or columns are missing
    Einsum(a)    = Transpose(a)                        where nothing is summed

Either operand may come first, and the inner indices follow the order of either; the form with the fewest
transposes is used. A Reshape may have at most one open dimension.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.linear import new_weight
from edgeopt.graph.passes.knowledge.matching import homes, rank
from edgeopt.graph.shapes import sizes

if TYPE_CHECKING:
    import onnx_ir as ir

_UNNAMED = "αβγδεζηθ"
"""Letters for the dimensions behind `...`, counted from the last."""

Lengths = Mapping[str, int | None]
"""Length of each index; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Equation:
    """Indices of each operand and of the result, one letter for each dimension."""

    terms: tuple[str, ...]
    result: str


def read(text: str, ranks: Sequence[int | None]) -> Equation | str:
    """Parses an equation for operands of these ranks; returns the reason as text if it cannot."""
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
    """Returns the name of an index in messages; `...` for an unnamed one."""
    return "..." if index in _UNNAMED else index


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """A way to write an equation as a matrix product; each group of indices becomes one dimension."""

    swapped: bool
    """Whether the second operand comes first."""
    left: tuple[str, ...]
    right: tuple[str, ...]
    out: tuple[str, ...]


def ways(equation: Equation) -> Iterator[MatrixForm]:
    """Yields the matrix forms of an equation: either operand first, the inner indices in the order of either."""
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
                # One matrix applies to all rows of the first operand, regardless of their number of dimensions.
                yield MatrixForm(swapped, (*rows, order), (order, columns), (*rows, columns))


def summed(equation: Equation) -> str:
    """Returns the indices that are in both operands and not in the result."""
    one, other = equation.terms
    return "".join(c for c in one if c in other and c not in equation.result)


def crosses(equation: Equation) -> bool:
    """Whether each operand has an index that the other lacks, so that their elements are combined pairwise."""
    one, other = equation.terms
    return bool(set(one) - set(other)) and bool(set(other) - set(one))


def alone(equation: Equation) -> str:
    """Returns the indices that are summed within one operand."""
    letters = "".join(equation.terms)
    return "".join(c for c in letters if c not in equation.result and letters.count(c) == 1)


def joined(groups: Sequence[str], lengths: Lengths) -> list[int] | str | None:
    """Returns the shape that merges each group into one dimension; None if each group has one index already.

    If more than one dimension is open, returns the index that is one too many.
    """
    if all(len(group) == 1 for group in groups):
        return None
    shape = []
    for place, group in enumerate(groups):
        known = [lengths[c] for c in group]
        if None not in known:
            shape.append(prod(length for length in known if length is not None))
        elif all(len(before) == 1 for before in groups[: place + 1]):
            shape.append(0)  # copied from the same position
        elif -1 in shape:
            return next(c for c in group if lengths[c] is None)
        else:
            shape.append(-1)
    return shape


def parted(groups: Sequence[str], lengths: Lengths) -> list[int] | str | None:
    """Returns the shape that splits the groups into one dimension for each index, the reverse of `joined`."""
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


OPSET = 13
"""First opset in which Unsqueeze takes its axes as an input and MatMul accepts every floating-point type."""
FLOATS = ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16")
_RESHAPE_COSTS = 0.1  # of a transpose: it moves nothing
_INNER_COSTS = 0.3
_FOLDED_COSTS = 0.01  # done once, when weights are folded


def apply_einsum_into_matmul(model: "ir.Model", context: PassContext) -> PassResult:
    import onnx_ir as ir

    model, notes = context.copy(model), Notes()
    for part, opset in homes(model):
        for node in list(part) if isinstance(part, ir.Graph) else ():  # functions are inlined before
            if not is_op(node, "Einsum"):
                continue
            named = label(node)
            found = (
                _operator(part, node, context, notes)
                if opset >= OPSET
                else f"MatMul for all floats needs opset {OPSET}"
            )
            if found in {"MatMul", "Mul", "Transpose"}:
                notes.did(f"wrote Einsum as {found}", named)
            else:
                notes.refuse(found, named)
    return notes.result(model)


def _operator(graph: "ir.Graph", node: "ir.Node", context: PassContext, notes: Notes) -> str:
    """Replaces an Einsum and returns the new operator, or the reason why it stays."""
    operands = [value for value in node.inputs if value is not None]
    if not 0 < len(operands) == len(node.inputs) <= 2:
        return f"it has {len(node.inputs)} operands; a matrix product has two"
    equation = read(node.attributes["equation"].as_string(), [rank(value) for value in operands])
    if isinstance(equation, str):
        return equation
    if own := alone(equation):
        return f"it sums '{called(own[0])}' over one operand only"
    writer = ProductWriter(graph, node)
    if len(operands) == 1:
        writer.finish(writer.transposed(operands[0], equation.terms[0], equation.result))
        return "Transpose"
    lengths = _lengths(equation, operands)
    found: MatrixForm | str = "its values may not be floats, and not every runtime multiplies other types"
    if all(value.dtype is not None and value.dtype.name in FLOATS for value in operands):
        found = lengths if isinstance(lengths, str) else _cheapest(equation, operands, lengths)
    if not summed(equation) and (isinstance(found, str) or not crosses(equation)):
        writer.multiply(equation, operands)
        return "Mul"
    if isinstance(found, str) or isinstance(lengths, str):
        return str(found)
    if _is_ambiguous(found, lengths):
        if context.empty_inputs:
            return "Reshape cannot infer an open dimension if another one is 0"
        notes.nonempty_only = True
    writer.product(equation, operands, lengths, found)
    return "MatMul"


def _is_ambiguous(way: MatrixForm, lengths: Lengths) -> bool:
    """Whether a Reshape would infer one size (-1) beside copied ones (0), which is ambiguous if those are 0."""
    shapes = (joined(way.left, lengths), joined(way.right, lengths), parted(way.out, lengths))
    return any(shape is not None and 0 in shape and -1 in shape for shape in shapes if not isinstance(shape, str))


def _lengths(equation: Equation, operands: "list[ir.Value]") -> Lengths | str:
    """Returns the length of each index, or why the equation is unsupported: an empty index or uncertain
    lengths."""
    found: dict[str, int | None] = {}
    for term, value in zip(equation.terms, operands, strict=True):
        for axis, index in enumerate(term):
            size = sizes.dimension(value, axis)
            if size == 0:
                return f"'{called(index)}' has no elements"
            found[index] = size if isinstance(size, int) and found.get(index, size) == size else None
    one, other = equation.terms
    for index in (c for c in one if c in other):
        here, there = (sizes.dimension(v, t.index(index)) for v, t in zip(operands, equation.terms, strict=True))
        if here is not None and here == there:
            continue
        if isinstance(here, int) and isinstance(there, int):
            return f"'{called(index)}' is {here} long in one operand and {there} in the other"
        if index not in equation.result:
            return f"'{called(index)}' may have different sizes in the operands"
    return found


def _cheapest(equation: Equation, operands: "list[ir.Value]", lengths: Lengths) -> MatrixForm | str:
    """Returns the matrix form with the fewest transposes, or why there is none."""
    best, minimum, reason = None, inf, ""
    for way in ways(equation):
        costs = 0.0
        sides = (equation.terms, operands) if not way.swapped else (equation.terms[::-1], operands[::-1])
        for term, value, groups in zip(*sides, (way.left, way.right), strict=True):
            factor = _FOLDED_COSTS if constant(value) is not None else 1.0
            costs += factor * (_turning(term, "".join(groups)) + _reshaping(joined(groups, lengths)))
        costs += _turning("".join(way.out), equation.result) + _reshaping(parted(way.out, lengths))
        if costs < minimum:
            best, minimum = way, costs
        shapes = (joined(way.left, lengths), joined(way.right, lengths), parted(way.out, lengths))
        open_one = next((shape for shape in shapes if isinstance(shape, str)), "")
        reason = reason or (
            f"'{called(open_one)}' is open like another index, and Reshape can infer only one" if open_one else ""
        )
    return best or reason


def _turning(old: str, new: str) -> float:
    if old == new:
        return 0.0
    # Most runtimes transpose the last two within the product.
    return _INNER_COSTS if old == new[:-2] + new[:-3:-1] else 1.0


def _reshaping(shape: list[int] | str | None) -> float:
    return inf if isinstance(shape, str) else _RESHAPE_COSTS if shape else 0.0


@dataclass(frozen=True, slots=True)
class ProductWriter:
    """A writer of nodes that replace an Einsum."""

    graph: "ir.Graph"
    node: "ir.Node"

    def put(self, kind: str, *inputs: "ir.Value", **attributes: object) -> "ir.Value":
        import onnx_ir as ir

        made = ir.node(kind, inputs, attributes)
        self.graph.insert_before(self.node, made)
        return made.outputs[0]

    def numbers(self, what: str, numbers: list[int]) -> "ir.Value":
        stem = self.node.name or self.node.outputs[0].name
        return new_weight(self.graph, f"{stem}_{what}", np.asarray(numbers, np.int64))

    def transposed(self, value: "ir.Value", old: str, new: str) -> "ir.Value":
        return value if old == new else self.put("Transpose", value, perm=[old.index(c) for c in new])

    def reshaped(self, value: "ir.Value", shape: list[int] | str | None) -> "ir.Value":
        if shape is None or isinstance(shape, str):
            return value
        return self.put("Reshape", value, self.numbers("shape", shape))

    def finish(self, value: "ir.Value") -> None:
        """Replaces the Einsum's output by `value`, which takes over its name, shape and type."""
        old = self.node.outputs[0]
        if value in self.node.inputs:
            value = self.put("Identity", value)
        name, value.shape, value.type = old.name, old.shape, old.type
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        last = value.producer()
        assert last is not None  # noqa: S101 - it was just made
        last.name = self.node.name
        self.graph.remove(self.node, safe=True)
        old.name, value.name = f"{name}__replaced", name

    def multiply(self, equation: Equation, operands: "list[ir.Value]") -> None:
        sides = []
        for term, value in zip(equation.terms, operands, strict=True):
            order = "".join(c for c in equation.result if c in term)
            # Dimensions before the first are broadcast.
            begun = equation.result.index(order[0]) if order else len(equation.result)
            missing = [place for place, c in enumerate(equation.result[begun:]) if c not in term]
            side = self.transposed(value, term, order)
            sides.append(self.put("Unsqueeze", side, self.numbers("axes", missing)) if missing else side)
        self.finish(self.put("Mul", *sides))

    def product(self, equation: Equation, operands: "list[ir.Value]", lengths: Lengths, way: MatrixForm) -> None:
        sides = (equation.terms, operands) if not way.swapped else (equation.terms[::-1], operands[::-1])
        factors = [
            self.reshaped(self.transposed(value, term, "".join(groups)), joined(groups, lengths))
            for term, value, groups in zip(*sides, (way.left, way.right), strict=True)
        ]
        result = self.reshaped(self.put("MatMul", *factors), parted(way.out, lengths))
        self.finish(self.transposed(result, "".join(way.out), equation.result))


EINSUM_INTO_MATMUL = Pass(
    "einsum-into-matmul",
    "Einsums become matrix products",
    apply_einsum_into_matmul,
    tolerance_db=100.0,
    nonempty_only=True,
    lowest_opset=OPSET,
)
