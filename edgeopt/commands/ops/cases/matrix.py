"""Matrix products."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import ALL, Case, fed, spread, weights

# Rows, inner size, columns.
_PRODUCTS = ((16, 128, 128), (128, 384, 384), (384, 768, 1024))
_BATCHED = ((4, 16, 32, 16), (12, 128, 64, 128), (24, 256, 64, 256))


def _cases() -> Iterator[Case]:
    plain = [[fed(m, k), weights(k, n, fan_in=k)] for m, k, n in _PRODUCTS]
    yield from spread("MatMul", plain, "weights", ALL)
    tokens = [[fed(2, m // 2, k), weights(k, n, fan_in=k)] for m, k, n in _PRODUCTS]
    yield from spread("MatMul", tokens, "batch and weights", ALL)
    row = [[fed(1, k), weights(k, n, fan_in=k)] for k, n in ((128, 128), (768, 768), (1024, 4096))]
    yield from spread("MatMul", row, "one row", ALL)
    batched = [[fed(1, b, m, k), fed(1, b, k, n)] for b, m, k, n in _BATCHED]
    yield from spread("MatMul", batched, "two inputs")
    across = [[fed(m, k), weights(n, k, fan_in=k), weights(n)] for m, k, n in _PRODUCTS]
    yield from spread("Gemm", across, "weights across", ALL, {"transB": 1})
    scaled = [[fed(k, m), weights(k, n, fan_in=k), weights(1, n)] for m, k, n in _PRODUCTS]
    yield from spread("Gemm", scaled, "input across, scaled", attributes={"transA": 1, "alpha": 0.5, "beta": 2.0})


CASES: tuple[Case, ...] = tuple(_cases())
