"""Attention as one operator (opset 23)."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import Attributes, Case, Port, fed, spread

# Batch, heads, tokens, size of a head.
_SIZES = ((1, 4, 16, 32), (1, 12, 128, 64), (2, 12, 256, 64))
_OPSET = 23


def _cases() -> Iterator[Case]:
    plain = [[fed(b, h, t, d) for _ in range(3)] for b, h, t, d in _SIZES]
    yield from spread("Attention", plain, "plain", opset=_OPSET)
    yield from spread("Attention", plain, "causal", attributes={"is_causal": 1}, opset=_OPSET)
    masked: list[list[Port]] = [
        [*(fed(b, h, t, d) for _ in range(3)), fed(b, 1, t, t, low=-4.0, high=0.0)] for b, h, t, d in _SIZES
    ]
    yield from spread("Attention", masked, "mask", opset=_OPSET)
    grouped = [[fed(b, t, h * d), fed(b, t, h // 2 * d), fed(b, t, h // 2 * d)] for b, h, t, d in _SIZES]
    heads: list[Attributes] = [{"q_num_heads": h, "kv_num_heads": h // 2} for _, h, _, _ in _SIZES]
    yield from spread("Attention", grouped, "grouped heads", attributes=heads, opset=_OPSET)


CASES: tuple[Case, ...] = tuple(_cases())
