"""The sizes of pools that round up: no window may begin behind the input, which onnx's inference does not know.

If it counts such a window, the copy for inference has a pool that rounds down, with the
padding that gives the size that runtimes give. See docs/upstream.md.
"""

from collections.abc import Iterator, Mapping
from typing import Any

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto and NodeProto.
Proto = Any
POOLS = ("MaxPool", "AveragePool", "LpPool")


def correct_a_pool(proto: Proto, found: Proto) -> bool:
    """Changes the first pool that has a wrong size in `found`, `proto` with shapes; whether there is one.

    The shapes after it have to be inferred again.
    """
    return any(_correct(node, sizes) for node, sizes in _pools(proto.graph, found.graph, {}))


def rounds_up(proto: Proto) -> bool:
    """Whether there is a pool that does; most models have none."""
    return any(True for _ in _pools(proto.graph, proto.graph, {}))


def _pools(graph: Proto, found: Proto, outer: Mapping[str, Proto]) -> Iterator[tuple[Proto, Mapping[str, Proto]]]:
    """The pools that round up, in subgraphs too, with what is known of values there."""
    sizes = {**outer, **{info.name: info for info in (*found.value_info, *found.input, *found.output)}}
    for node, twin in zip(graph.node, found.node, strict=False):
        if node.op_type in POOLS and not node.domain and _integer(node, "ceil_mode"):
            yield node, sizes
        inner = {attribute.name: attribute.g for attribute in twin.attribute if attribute.HasField("g")}
        for attribute in node.attribute:
            if attribute.HasField("g") and attribute.name in inner:
                yield from _pools(attribute.g, inner[attribute.name], sizes)


def _correct(node: Proto, infos: Mapping[str, Proto]) -> bool:
    """Lets the pool round down to the size that it has, where inference gives it another."""
    source, result = (_sides(infos.get(name)) for name in (node.input[0], node.output[0]))
    kernel = _integers(node, "kernel_shape")
    axes = len(kernel)
    if len(source) != axes or len(result) != axes or _text(node, "auto_pad") not in {"", "NOTSET"}:
        return False
    pads = _integers(node, "pads") or [0] * (2 * axes)
    strides, dilations = _integers(node, "strides") or [1] * axes, _integers(node, "dilations") or [1] * axes
    right = [
        None if size is None else size_of(size, (pads[k], pads[axes + k]), kernel[k], strides[k], dilations[k])
        for k, size in enumerate(source)
    ]
    if all(a is None or b is None or a == b for a, b in zip(right, result, strict=True)):
        return False
    for k, (size, wanted) in enumerate(zip(source, right, strict=True)):
        if size is not None and wanted is not None:
            reach = dilations[k] * (kernel[k] - 1) + 1
            pads[axes + k] = max(0, (wanted - 1) * strides[k] + reach - size - pads[k])
    kept = [one for one in node.attribute if one.name not in {"ceil_mode", "pads"}]
    import onnx

    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])
    return True


def size_of(size: int, pads: tuple[int, int], kernel: int, stride: int, dilation: int) -> int:
    """What a pool that rounds up makes of a side; each window begins within the input or the padding before."""
    reach = dilation * (kernel - 1) + 1
    windows = -(-(size + sum(pads) - reach) // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + pads[0] else windows


def _sides(info: Proto | None) -> list[int | None]:
    """The sizes behind batch and channels; nothing where not even their number is known."""
    if info is None or not info.type.tensor_type.HasField("shape"):
        return []
    return [d.dim_value if d.HasField("dim_value") else None for d in info.type.tensor_type.shape.dim[2:]]


def _integer(node: Proto, name: str) -> int:
    return next((int(one.i) for one in node.attribute if one.name == name), 0)


def _integers(node: Proto, name: str) -> list[int]:
    return next((list(one.ints) for one in node.attribute if one.name == name), [])


def _text(node: Proto, name: str) -> str:
    return next((one.s.decode() for one in node.attribute if one.name == name), "")
