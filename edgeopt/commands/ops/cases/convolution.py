"""Convolutions."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import ALL, FLOATS, Attributes, Case, Precision, fed, spread, weights

# Input channels, output channels, height and width.
_SIZES = ((8, 16, 14), (64, 64, 28), (64, 128, 56))
_DEEP = ((16, 16, 14), (96, 96, 28), (192, 192, 56))

# Variant, kernel, groups, attributes, precisions.
_Row = tuple[str, int, str, Attributes, tuple[Precision, ...]]
_ROWS: tuple[_Row, ...] = (
    ("3x3", 3, "one", {"pads": (1, 1, 1, 1)}, ALL),
    ("1x1", 1, "one", {}, ALL),
    ("depth-wise 3x3", 3, "each", {"pads": (1, 1, 1, 1)}, ALL),
    ("depth-wise 3x3 strided", 3, "each", {"pads": (1, 1, 1, 1), "strides": (2, 2)}, ALL),
    ("depth-wise 5x5", 5, "each", {"pads": (2, 2, 2, 2)}, FLOATS),
    ("3x3 strided", 3, "one", {"pads": (1, 1, 1, 1), "strides": (2, 2)}, ALL),
    ("3x3 dilated", 3, "one", {"pads": (2, 2, 2, 2), "dilations": (2, 2)}, ALL),
    ("3x3 four groups", 3, "four", {"pads": (1, 1, 1, 1)}, ALL),
    ("7x7 strided", 7, "one", {"pads": (3, 3, 3, 3), "strides": (2, 2)}, FLOATS),
    ("3x3 same upper", 3, "one", {"auto_pad": "SAME_UPPER", "strides": (2, 2)}, FLOATS),
)


def _plain() -> Iterator[Case]:
    for variant, kernel, grouping, more, precisions in _ROWS:
        ports, attributes = [], []
        for come, go, side in _DEEP if grouping == "each" else _SIZES:
            groups = {"one": 1, "four": 4, "each": come}[grouping]
            inner = come // groups
            kernels = weights(go, inner, kernel, kernel, fan_in=inner * kernel**2)
            ports.append([fed(1, come, side, side), kernels, weights(go)])
            attributes.append({"kernel_shape": (kernel, kernel), "group": groups, **more})
        yield from spread("Conv", ports, variant, precisions, attributes)


def _along_one_axis() -> Iterator[Case]:
    sizes = ((8, 16, 64), (64, 64, 256), (128, 256, 1024))
    ports = [[fed(1, c, t), weights(g, c, 3, fan_in=c * 3), weights(g)] for c, g, t in sizes]
    yield from spread("Conv", ports, "1-d 3", FLOATS, {"kernel_shape": (3,), "pads": (1, 1)})


def _transposed() -> Iterator[Case]:
    sizes = ((8, 8, 14), (64, 32, 28), (64, 64, 56))
    for variant, kernel, more in (
        ("2x2 strided", 2, {"strides": (2, 2)}),
        ("4x4 strided", 4, {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("3x3 output padding", 3, {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}),
    ):
        ports = [
            [fed(1, c, s, s), weights(c, g, kernel, kernel, fan_in=c * kernel**2 // 4), weights(g)]
            for c, g, s in sizes
        ]
        attributes: Attributes = {"kernel_shape": (kernel, kernel), **more}
        yield from spread("ConvTranspose", ports, variant, FLOATS, attributes)


CASES: tuple[Case, ...] = (*_plain(), *_along_one_axis(), *_transposed())
