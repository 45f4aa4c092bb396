"""Symbolic sizes: integers, sums of products of open dimensions, or unknown.

A size is an int if it is known, a Sum if it follows from open dimensions (3·batch·heads + 1), and None if it is
known only at run time. Open dimensions are never negative.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.graph.nodes import constant, is_op
from edgeopt.graph.shapes.corrections import squeezes_by_no_axes

if TYPE_CHECKING:
    import onnx_ir as ir

Product = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of products of open dimensions, in a fixed order, so that equal sums are equal records."""

    terms: tuple[tuple[Product, int], ...]


Size = int | Sum | None


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a small integer tensor with zero or one dimension."""

    elements: tuple[Size, ...]
    scalar: bool = False

    @property
    def known(self) -> bool:
        return all(isinstance(element, int) for element in self.elements)


def dimension(value: "ir.Value", axis: int) -> Size:
    """Returns one dimension of a value; an unnamed one gets a unique symbol."""
    if value.shape is None:
        return None
    found = value.shape[axis]
    if isinstance(found, int):
        return found
    return Sum((((found.value or f"{id(value)}:{axis}",), 1),))


def shape_of(value: "ir.Value | None") -> tuple[Size, ...] | None:
    if value is None or value.shape is None:
        return None
    return tuple(dimension(value, axis) for axis in range(len(value.shape)))


def picture_may_be_empty(value: "ir.Value | None") -> bool:
    """Whether a dimension after batch and channel is open, so that it may be 0."""
    return value is None or value.shape is None or not all(isinstance(size, int) for size in list(value.shape)[2:])


def add(a: Size, b: Size) -> Size:
    if a is None or b is None:
        return None
    terms = dict(_terms(a))
    for product, factor in _terms(b):
        terms[product] = terms.get(product, 0) + factor
    return _size(terms)


def multiply(a: Size, b: Size) -> Size:
    if 0 in {a, b} and isinstance(a, int) and isinstance(b, int):
        return 0
    if a is None or b is None:
        return None
    terms: dict[Product, int] = {}
    for first, one in _terms(a):
        for second, other in _terms(b):
            product = tuple(sorted(first + second))
            terms[product] = terms.get(product, 0) + one * other
    return _size(terms)


def subtract(a: Size, b: Size) -> Size:
    return add(a, multiply(b, -1))


def divide(a: Size, b: Size) -> Size:
    """Divides towards zero, as ONNX does for integers; open sizes must be divisible without remainder."""
    if not isinstance(b, int) or b == 0 or a is None:
        return None
    if isinstance(a, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if any(factor % b for _, factor in a.terms):
        return None
    return _size({product: factor // b for product, factor in a.terms})


def quotient(a: Size, b: Size) -> Size:
    """Divides without remainder by a product of open dimensions, which are not 0; None if that is not possible."""
    if a is None or b is None or len(_terms(b)) != 1:
        return None
    ((divisor, number),) = _terms(b)
    terms: dict[Product, int] = {}
    for names, factor in _terms(a):
        left = list(names)
        if factor % number or any(names.count(each) < divisor.count(each) for each in divisor):
            return None
        for each in divisor:
            left.remove(each)
        terms[tuple(left)] = factor // number
    return _size(terms)


def remainder(a: Size, b: Size) -> Size:
    """Computes a remainder with the sign of the divisor, as ONNX's Mod does by default."""
    if not isinstance(b, int) or b == 0 or a is None:
        return None
    if isinstance(a, int):
        return a % b
    return None if any(factor % b for _, factor in a.terms) else 0


def equal(a: Size, b: Size) -> Size:
    difference = subtract(a, b)
    if isinstance(difference, int):
        return int(difference == 0)
    return 0 if _always_positive(difference) or _always_positive(multiply(difference, -1)) else None


def greater(a: Size, b: Size) -> Size:
    difference = subtract(a, b)
    if isinstance(difference, int):
        return int(difference > 0)
    if _always_positive(difference):
        return 1
    return 0 if _never_positive(difference) else None


def absolute(a: Size) -> Size:
    if isinstance(a, int):
        return abs(a)
    return a if a is not None and _never_negative(a) else None


def held(size: Size, bits: int) -> Size:
    """Returns the size if an integer of this width can hold it, else None, because runtimes wrap around.

    An open dimension leaves half of the bits to its factor.
    """
    if isinstance(size, int):
        return size if -(2 ** (bits - 1)) <= size < 2 ** (bits - 1) else None
    if size is None or any(abs(factor) >= 2 ** (bits // 2 - 1) for _, factor in size.terms):
        return None
    return size


def _terms(size: int | Sum) -> tuple[tuple[Product, int], ...]:
    if isinstance(size, int):
        return (((), size),) if size else ()
    return size.terms


def _size(terms: dict[Product, int]) -> int | Sum:
    left = {product: factor for product, factor in terms.items() if factor}
    if not left:
        return 0
    if set(left) == {()}:
        return left[()]
    return Sum(tuple(sorted(left.items())))


def _never_negative(size: Size) -> bool:
    return size is not None and all(factor > 0 for _, factor in _terms(size))


def _never_positive(size: Size) -> bool:
    return size is not None and all(factor < 0 for _, factor in _terms(size))


def _always_positive(size: Size) -> bool:
    """Whether a size is positive even if all open dimensions are 0."""
    return _never_negative(size) and size is not None and dict(_terms(size)).get((), 0) > 0


MAX_ELEMENTS = 64  # a shape has a handful; longer ones are data


def sizes_of(value: "ir.Value | None", known: "dict[ir.Value, Elements]") -> Elements | None:
    """Returns the known elements of a value, from a rule or a small integer constant, else None."""
    if value is None:
        return None
    if value in known:
        return known[value]
    small = value.const_value is None or value.const_value.size <= MAX_ELEMENTS
    array = constant(value) if small and _is_whole(value) else None
    if array is None or array.ndim > 1:
        return None
    known[value] = Elements(tuple(int(element) for element in array.reshape(-1)), array.ndim == 0)
    return known[value]


def follow(node: "ir.Node", known: "dict[ir.Value, Elements]") -> Elements | None:
    """Computes the elements of a node's first result by the rule of its operator, else None."""
    rule = RULES.get(node.op_type) if is_op(node, node.op_type) else None
    if rule is None or not node.outputs:
        return None
    if node.op_type not in {"Shape", "Size"} and not _is_whole(node.outputs[0]):
        return None
    found = rule(node, [sizes_of(value, known) for value in node.inputs])
    if found is None or len(found.elements) > MAX_ELEMENTS:
        return None
    return Elements(tuple(held(size, _bits(node.outputs[0])) for size in found.elements), found.scalar)


def _bits(value: "ir.Value") -> int:
    import onnx_ir as ir

    return 32 if value.dtype == ir.DataType.INT32 else 64


def _is_whole(value: "ir.Value") -> bool:
    import onnx_ir as ir

    return value.dtype in {ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL}


def _shape(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:  # noqa: ARG001 - all rules have this signature
    source = node.inputs[0]
    # An exporter's declared output shape need not hold for every input.
    dims = None if source is None or source.is_graph_output() else shape_of(source)
    if dims is None:
        return None
    start, end = _integer(node, "start", 0), _integer(node, "end", len(dims))
    return None if start is None or end is None else Elements(dims[start:end])


def _element_count(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    dims = _shape(node, inputs)
    return None if dims is None else Elements((_product(dims.elements),), scalar=True)


def _product(elements: tuple[Size, ...]) -> Size:
    product: Size = 1
    for element in elements:
        product = multiply(product, element)
    return product


def _same(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:  # noqa: ARG001 - all rules have this signature
    return inputs[0]


def _cast(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    """Follows a Cast between integers; a size that may not fit into 32 bits is unknown."""
    import onnx_ir as ir

    if inputs[0] is None:
        return None
    to = node.outputs[0].dtype
    if to == ir.DataType.BOOL:
        return _each(lambda a: int(a != 0) if isinstance(a, int) else None)(node, inputs)
    numbers = [element for element in inputs[0].elements if isinstance(element, int)]
    fits = all(-(2**31) <= number < 2**31 for number in numbers)
    return inputs[0] if to == ir.DataType.INT64 or fits else None


def _gather(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    data, at = inputs[0], inputs[1]
    if data is None or data.scalar or at is None or not at.known or _integer(node, "axis", 0) not in {0, -1}:
        return None
    count = len(data.elements)
    places = [place for place in at.elements if isinstance(place, int) and -count <= place < count]
    if len(places) != len(at.elements):
        return None
    return Elements(tuple(data.elements[place] for place in places), at.scalar)


def _concat(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    parts: list[Size] = []
    for value, part in zip(node.inputs, inputs, strict=True):
        if part is not None and not part.scalar:
            parts += part.elements
        elif value is not None and value.shape is not None and len(value.shape) == 1 and value.shape.is_static():
            length = value.shape.numpy()[0]
            if length > MAX_ELEMENTS:
                return None
            parts += [None] * length
        else:
            return None
    return Elements(tuple(parts))


def _slice(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    numbers = [_only(part) for part in inputs[1:]]
    absent = [value is None for value in node.inputs[1:]]
    if inputs[0] is None or inputs[0].scalar or len(numbers) < 2:
        return None
    defaults = [None, None, 0, 1]
    start, end, axis, step = (numbers[i] if i < len(numbers) and not absent[i] else defaults[i] for i in range(4))
    if start is None or end is None or axis not in {0, -1} or not step:
        return None
    if step < 0 and end < -len(inputs[0].elements):
        return Elements(inputs[0].elements[start::step])
    return Elements(inputs[0].elements[start:end:step])


def _squeeze(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    """Converts a list of one element to a scalar; other Squeezes give None."""
    if squeezes_by_no_axes(node):
        return None
    if inputs[0] is None or len(inputs[0].elements) != 1 or inputs[0].scalar:
        return None
    return Elements(inputs[0].elements, scalar=True)


def _unsqueeze(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    axes = list(node.attributes["axes"].as_ints()) if "axes" in node.attributes else None
    if len(inputs) > 1 and inputs[1] is not None:
        axes = [element for element in inputs[1].elements if isinstance(element, int)]
    if inputs[0] is None or not inputs[0].scalar or axes is None or len(axes) != 1:
        return None
    return Elements(inputs[0].elements)


def _reshape(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:  # noqa: ARG001 - all rules have this signature
    if inputs[0] is None or inputs[1] is None:
        return None
    if not inputs[1].elements and len(inputs[0].elements) == 1:
        return Elements(inputs[0].elements, scalar=True)
    return Elements(inputs[0].elements) if len(inputs[1].elements) == 1 else None


def _constant_of_shape(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    if inputs[0] is None or len(inputs[0].elements) != 1 or not isinstance(inputs[0].elements[0], int):
        return None
    attribute, length = node.attributes.get("value"), inputs[0].elements[0]
    if attribute is None or not 0 <= length <= MAX_ELEMENTS:
        return None
    return Elements((int(attribute.as_tensor().numpy().reshape(-1)[0]),) * length)


def _reduce_prod(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
    if inputs[0] is None or inputs[0].scalar or _integer(node, "noop_with_empty_axes", 0):
        return None
    scalar = _integer(node, "keepdims", 1) == 0
    return Elements((_product(inputs[0].elements),), scalar)


def _pairwise(
    operation: "Callable[[Size, Size], Size]",
) -> "Callable[[ir.Node, list[Elements | None]], Elements | None]":
    """Makes the rule of a binary operator, which repeats a single number for all elements of the other operand."""

    def rule(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:
        if len(inputs) != 2 or inputs[0] is None or inputs[1] is None:
            return None
        if node.attributes:  # Mod as C computes it
            return None
        return _broadcast(operation, inputs[0], inputs[1])

    return rule


def _broadcast(operation: "Callable[[Size, Size], Size]", a: Elements, b: Elements) -> Elements | None:
    count = max(len(a.elements), len(b.elements))
    if {len(a.elements), len(b.elements)} - {1, count}:
        return None
    if not a.elements or not b.elements:
        return None
    pairs = zip(_repeated(a, count), _repeated(b, count), strict=True)
    return Elements(tuple(operation(x, y) for x, y in pairs), a.scalar and b.scalar)


def _repeated(part: Elements, count: int) -> tuple[Size, ...]:
    return part.elements * count if len(part.elements) == 1 else part.elements


def _where(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:  # noqa: ARG001 - all rules have this signature
    condition, yes, no = inputs
    if condition is None or yes is None or no is None:
        return None
    count = max(len(part.elements) for part in (condition, yes, no))
    if any(len(part.elements) not in {1, count} for part in (condition, yes, no)):
        return None
    picked = [
        (y if c else n) if isinstance(c, int) else (y if y == n else None)
        for c, y, n in zip(*(_repeated(part, count) for part in (condition, yes, no)), strict=True)
    ]
    return Elements(tuple(picked), condition.scalar and yes.scalar and no.scalar)


def _each(operation: "Callable[[Size], Size]") -> "Callable[[ir.Node, list[Elements | None]], Elements | None]":
    def rule(node: "ir.Node", inputs: list[Elements | None]) -> Elements | None:  # noqa: ARG001 - all rules have this signature
        return None if inputs[0] is None else Elements(tuple(map(operation, inputs[0].elements)), inputs[0].scalar)

    return rule


def _largest(a: Size, b: Size) -> Size:
    a_wins = greater(a, b)
    return None if not isinstance(a_wins, int) else a if a_wins else b


def _smallest(a: Size, b: Size) -> Size:
    a_wins = greater(b, a)
    return None if not isinstance(a_wins, int) else a if a_wins else b


def _integer(node: "ir.Node", name: str, default: int) -> int | None:
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    return None if attribute.is_ref() else attribute.as_int()


def _only(part: Elements | None) -> int | None:
    if part is None or len(part.elements) != 1 or not isinstance(part.elements[0], int):
        return None
    return part.elements[0]


def _not(a: Size) -> Size:
    return int(not a) if isinstance(a, int) else None


def _both(a: Size, b: Size) -> Size:
    if 0 in {a, b}:
        return 0
    return 1 if isinstance(a, int) and isinstance(b, int) else None


def _either(a: Size, b: Size) -> Size:
    if 1 in {a, b}:
        return 1
    return 0 if isinstance(a, int) and isinstance(b, int) else None


RULES: "dict[str, Callable[[ir.Node, list[Elements | None]], Elements | None]]" = {
    "Shape": _shape,
    "Size": _element_count,
    "Identity": _same,
    "Cast": _cast,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "ConstantOfShape": _constant_of_shape,
    "ReduceProd": _reduce_prod,
    "Where": _where,
    "Add": _pairwise(add),
    "Sub": _pairwise(subtract),
    "Mul": _pairwise(multiply),
    "Div": _pairwise(divide),
    "Mod": _pairwise(remainder),
    "Max": _pairwise(_largest),
    "Min": _pairwise(_smallest),
    "Equal": _pairwise(equal),
    "Greater": _pairwise(greater),
    "Less": _pairwise(lambda a, b: greater(b, a)),
    "And": _pairwise(_both),
    "Or": _pairwise(_either),
    "Not": _each(_not),
    "Neg": _each(lambda a: multiply(a, -1)),
    "Abs": _each(absolute),
}
