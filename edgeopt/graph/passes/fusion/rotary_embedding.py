"""Rotary positions become RotaryEmbedding.

    y1 = x1 * cos - x2 * sin
    y2 = x2 * cos + x1 * sin

where x1 and x2 are the left and right half of each head, or its even and odd columns. Halves are also turned at
once, y = x * cos + concat(-x2, x1) * sin, with cosines and sines that repeat for the second half.

On request: in ONNX Runtime (1.31) the operator alone was measured to be 1.5 times as fast as its parts on
processors, and whole models 0.99 to 1.10 times; OpenVINO finds the parts by itself, and there what the operator
wants done to the angles comes on top (0.97 to 1.02 times).
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op, nodes_of
from edgeopt.graph.passes.knowledge.heads import asked_extent, extent, keeps_rows, target_shape
from edgeopt.graph.passes.knowledge.matching import (
    ARITHMETIC,
    Found,
    fuse,
    integers,
    operands,
    polynomial,
    producer,
    rank,
    upstream,
)
from edgeopt.graph.passes.knowledge.rotary_angles import Caches, equal, name_counted_dimensions, refusal

if TYPE_CHECKING:
    import onnx_ir as ir

OPSET = 23

Place = Literal["left", "right", "even", "odd"]


class Half(NamedTuple):
    """Half of the columns of `whole`."""

    whole: "ir.Value"
    place: Place
    node: "ir.Node"


class Rotation(NamedTuple):
    """The rotated input and its angles; `twice` if the angles are repeated for both halves."""

    x: "ir.Value"
    cosine: "ir.Value"
    sine: "ir.Value"
    nodes: "tuple[ir.Node, ...]"
    twice: bool = False
    interleaved: bool = False


def find_rotation(node: "ir.Node") -> Rotation | None:
    """The rotation whose result this node gives."""
    if is_op(node, "Add"):
        return _at_once(node)
    if is_op(node, "Concat"):
        return _by_halves(node, node.inputs, ("left", "right")) if _over_columns(node) else None
    if not is_op(node, "Reshape"):
        return None
    # Pairs of columns side by side, and then in one dimension.
    pairs = producer(node.inputs[0], "Concat")
    columns = [producer(one, "Unsqueeze") for one in pairs.inputs] if pairs is not None else []
    if pairs is None or not _over_columns(pairs, 5):
        return None
    known = [one for one in columns if one is not None and integers(one.inputs[1]) in {(-1,), (4,)}]
    if len(known) != len(columns):
        return None
    found = _by_halves(pairs, [one.inputs[0] for one in known], ("even", "odd"))
    if found is None or not _gives_back(node, found.x):
        return None
    return found._replace(nodes=(node, *found.nodes, *known), interleaved=True)


def _over_columns(node: "ir.Node", dimensions: int = 4) -> bool:
    return len(node.inputs) == 2 and node.attributes["axis"].as_int() in {-1, dimensions - 1}


def _gives_back(reshape: "ir.Node", x: "ir.Value") -> bool:
    """Whether the shape is that of x."""
    target = target_shape(reshape)
    if len(target) != 4 or not keeps_rows(target, x, reshape.inputs[0]):
        return False
    asked = asked_extent(target[2]) if not isinstance(target[2], int) else None
    rows = target[2] in {0, extent(x, 2)} if asked is None else equal(*asked, x, 2)
    return target[1] in {0, extent(x, 1)} and rows and target[3] in {-1, extent(x, 3)}


def _at_once(node: "ir.Node") -> Rotation | None:
    for straight, crossed in operands(node):
        one, other = producer(straight, "Mul"), producer(crossed, "Mul")
        if one is None or other is None:
            continue
        for turned, sine in operands(other):
            joined = producer(turned, "Concat")
            if joined is None or not _over_columns(joined):
                continue
            minus, left = joined.inputs
            right = next((value for value in upstream(minus, 1) if value is not minus), None)
            negated = polynomial(minus, (right,), 1) if right is not None else None
            first, second = _half(left), _half(right)
            if negated is None or not negated.equals({(1,): -1.0}, right) or first is None or second is None:
                continue
            if (first.place, second.place) != ("left", "right") or first.whole is not second.whole:
                continue
            cosine = next((angle for x, angle in operands(one) if x is first.whole), None)
            if cosine is None:
                continue
            nodes = (node, one, other, joined, *negated.nodes, first.node, second.node)
            return Rotation(first.whole, cosine, sine, nodes, twice=True)
    return None


def _by_halves(
    node: "ir.Node", results: "Sequence[ir.Value | None]", places: tuple[Place, Place]
) -> Rotation | None:
    real, imaginary = results
    atoms = [value for value in upstream(real, 2) if producer(value, *ARITHMETIC) is None]
    if len(atoms) != 4:
        return None
    halves = {half.place: value for value in atoms if (half := _half(value)) is not None}
    if not set(places) <= halves.keys():
        return None
    one, other = (halves[place] for place in places)
    first, second = _half(one), _half(other)
    cosine, sine = (value for value in atoms if value is not one and value is not other)
    if first is None or second is None or first.whole is not second.whole:
        return None
    for cos, sin in ((cosine, sine), (sine, cosine)):
        parts = [polynomial(value, (one, other, cos, sin), 2) for value in (real, imaginary)]
        terms = ({(1, 0, 1, 0): 1.0, (0, 1, 0, 1): -1.0}, {(0, 1, 1, 0): 1.0, (1, 0, 0, 1): 1.0})
        if all(part is not None and part.equals(want) for part, want in zip(parts, terms, strict=True)):
            inner = [used for part in parts if part is not None for used in part.nodes]
            return Rotation(first.whole, cos, sin, (node, *inner, first.node, second.node))
    return None


def _half(value: "ir.Value | None") -> Half | None:
    """Which half of the columns of what a value is, where the width is known and even."""
    node = producer(value, "Slice", "Split")
    whole = node.inputs[0] if node is not None else None
    width = extent(whole, 3) if whole is not None and rank(whole) == 4 else None
    if node is None or whole is None or not width or width % 2:
        return None
    half = width // 2
    if is_op(node, "Split"):
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
        sizes = integers(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else (half, half)
        if axis not in {-1, 3} or sizes != (half, half) or len(node.outputs) != 2:
            return None
        return Half(whole, "left" if node.outputs[0] is value else "right", node)
    bounds = [integers(one, 1) for one in (*node.inputs[1:], None, None)[:4]]
    start, end, axis_of, step = (one[0] if one else None for one in bounds)
    if start is None or end is None or axis_of not in {-1, 3}:
        return None
    step = 1 if len(node.inputs) < 5 or node.inputs[4] is None else step
    start, end = (min(one + width if one < 0 else one, width) for one in (start, end))
    places: dict[tuple[int, int, int | None], Place] = {
        (0, half, 1): "left",
        (half, width, 1): "right",
        (0, width, 2): "even",
        (1, width, 2): "odd",
        (0, width - 1, 2): "even",
    }
    place = places.get((start, end, step))
    return Half(whole, place, node) if place is not None else None


def _standard(node: "ir.Node", caches: Caches) -> Found | None:
    found = find_rotation(node)
    if found is None:
        return None
    x, width = found.x, (extent(found.x, 3) or 0) // 2
    reasons = (refusal(angles, x, width, found.twice) for angles in (found.cosine, found.sine))
    reason = next((one for one in reasons if one is not None), None)
    if x.dtype is None or x.dtype.itemsize > 4:
        reason = "the values may not have a type that RotaryEmbedding takes"

    def prepare() -> "tuple[list[ir.Node], tuple[Any, ...]]":
        cosines, cosine = caches.of(found.cosine, x, width, node)
        sines, sine = caches.of(found.sine, x, width, node)
        return [*cosines, *sines], (x, cosine, sine)

    return Found(
        node,
        tuple(dict.fromkeys(one for one in found.nodes if not is_op(one, "Slice", "Split"))),
        "RotaryEmbedding",
        (x, found.cosine, found.sine),
        {"interleaved": 1} if found.interleaved else {},
        opset=OPSET,
        reason=reason,
        others=tuple(dict.fromkeys(one for one in found.nodes if is_op(one, "Slice", "Split"))),
        prepare=prepare,
    )


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every rotation, in subgraphs and functions too."""
    if any(find_rotation(node) is not None for node in nodes_of(model)):
        model = model.clone()
        name_counted_dimensions(model)
    return fuse(model, context, partial(_standard, caches=Caches()), "rotation")


PASS = Pass(
    "rotary-embedding",
    "rotary embeddings written as several nodes become one operator",
    apply,
    100.0,
    on_request=True,
    lowest_opset=OPSET,
)
