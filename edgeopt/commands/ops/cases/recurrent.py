"""Recurrent layers."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import Attributes, Case, fed, spread, weights

# Steps, batch, input size, hidden size.
_SIZES = ((8, 1, 16, 16), (32, 1, 64, 128), (64, 4, 128, 256))


def _cases() -> Iterator[Case]:
    for operator, gates, outputs, more in (("LSTM", 4, 3, {}), ("GRU", 3, 2, {"linear_before_reset": 1})):
        for variant, directions in (("forward", 1), ("bidirectional", 2)):
            ports = [
                [
                    fed(t, b, i),
                    weights(directions, gates * h, i, fan_in=i),
                    weights(directions, gates * h, h, fan_in=h),
                    weights(directions, 2 * gates * h),
                ]
                for t, b, i, h in _SIZES
            ]
            attributes: list[Attributes] = [
                {"hidden_size": h, "direction": variant, **more} for _, _, _, h in _SIZES
            ]
            yield from spread(operator, ports, variant, attributes=attributes, outputs=outputs)
    states = [
        [
            fed(t, b, i),
            weights(1, 4 * h, i, fan_in=i),
            weights(1, 4 * h, h, fan_in=h),
            None,
            None,
            fed(1, b, h),
            fed(1, b, h),
        ]
        for t, b, i, h in _SIZES
    ]
    sizes: list[Attributes] = [{"hidden_size": h} for _, _, _, h in _SIZES]
    yield from spread("LSTM", states, "with state", attributes=sizes, outputs=3)
    resets = [
        [fed(t, b, i), weights(1, 3 * h, i, fan_in=i), weights(1, 3 * h, h, fan_in=h)] for t, b, i, h in _SIZES
    ]
    yield from spread("GRU", resets, "reset first", attributes=sizes, outputs=2)


CASES: tuple[Case, ...] = tuple(_cases())
