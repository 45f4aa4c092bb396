"""Matrix products: an output's element adds up as many products as the inner dimension is long.

A bias is where that sum begins, so it costs nothing of its own; bringing a quantized number back to a real one, or
the other way, is one operation.
"""

from math import prod

from edgeopt.graph.analysis.cost.call import Arithmetic, Call, Unknown


def _inner(call: Call) -> int:
    if not call.whole("transA"):
        return call.axis(0, -1)
    return call.axis(0, 0 if call.whole("transBatchA") else -2)


def plain(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * _inner(call))


def activated(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * _inner(call), call.out())


def requantized(call: Call) -> Arithmetic:
    """The sums are scaled back."""
    return Arithmetic(call.out() * _inner(call), call.out())


def quantizing(call: Call) -> Arithmetic:
    """The first factor is quantized first: its range (two), and each number."""
    return Arithmetic(call.out() * _inner(call), call.out() + 3 * call.given())


def packed(call: Call) -> Arithmetic:
    """Weights in few bits: each is brought back to a real number once."""
    inner = call.axis(0, -1)
    return Arithmetic(call.out() * inner, inner * call.whole("N", call.output().known_shape()[-1]))


def biased_gelu(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * call.axis(0, -1), call.out())


def determinant(call: Call) -> Arithmetic:
    """By elimination: a third of the cube for each matrix."""
    size = call.axis(0, -1)
    return Arithmetic(call.given() * size // 3)


def inverse(call: Call) -> Arithmetic:
    return Arithmetic(call.given() * call.axis(0, -1))


def distances(call: Call) -> Arithmetic:
    """Of all pairs of rows: a difference and a square in each place."""
    products = call.out() * call.axis(0, -1)
    return Arithmetic(products, products)


def einsum(call: Call) -> Arithmetic:
    """From left to right, each step over all indices that it still has."""
    equation = call.text("equation").replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    if len(terms) != len(call.inputs):
        raise Unknown(f"its equation '{equation}' does not fit its inputs")
    indices = [_indices(term, call.shape(place)) for place, term in enumerate(terms)]
    sizes: dict[str, int] = {}
    for term in indices:
        for name, size in term.items():
            sizes[name] = max(size, sizes.get(name, 1))
    result = _result(equation, indices)
    held, macs = set(indices[0]), 0
    for place in range(1, len(indices)):
        step = held | set(indices[place])
        macs += prod(sizes[name] for name in step)
        needed = result.union(*indices[place + 1 :])
        held = step & needed
    if len(indices) == 1:
        every = prod(sizes.values())
        return Arithmetic(0, every if set(sizes) - result else 0)
    return Arithmetic(macs)


def _indices(term: str, shape: tuple[int, ...]) -> dict[str, int]:
    """Size by index; those that the dots stand for are numbered from the right."""
    before, dots, after = term.partition("...")
    if not dots:
        before, after = term, ""
    rest = len(shape) - len(before) - len(after)
    names = [*before, *(f".{place}" for place in range(rest, 0, -1)), *after]
    if rest < 0 or len(names) != len(shape):
        raise Unknown(f"its equation has '{term}' for an input with {len(shape)} dimensions")
    return dict(zip(names, shape, strict=True))


def _result(equation: str, indices: list[dict[str, int]]) -> set[str]:
    left, arrow, right = equation.partition("->")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." + "".join(letter for letter in letters if letters.count(letter) == 1)
    dots = {name for term in indices for name in term if name[0] == "."} if "..." in right else set()
    return {*right.replace(".", ""), *dots}


def experts(call: Call) -> Arithmetic:
    """Each token goes through the matrices of `k` experts."""
    tokens = prod(call.shape(0)[:-1])
    weights = sum(prod(call.shape(place)[1:]) for place in (2, 4, 6) if call.has(place))
    return Arithmetic(tokens * max(1, call.whole("k", 1)) * weights)


RULES = {
    **dict.fromkeys(("MatMul", "Gemm", "MatMulInteger", "MatMulInteger16"), plain),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul", "GemmFloat8"), plain),
    **dict.fromkeys(("FusedGemm", "FusedMatMulActivation"), activated),
    **dict.fromkeys(("QLinearMatMul", "QGemm", "QOrderedMatMul", "MatMulIntegerToFloat"), requantized),
    "DynamicQuantizeMatMul": quantizing,
    **dict.fromkeys(
        (
            *("MatMulNBits", "MatMulBnb4", "MatMulFpQ4"),
            *("MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight"),
        ),
        packed,
    ),
    "GemmFastGelu": biased_gelu,
    "Det": determinant,
    "Inverse": inverse,
    "CDist": distances,
    "Einsum": einsum,
    "MoE": experts,
}
