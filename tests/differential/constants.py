"""The constants that break rules which are only nearly right, and the shapes that they come in."""

import numpy as np

NASTY = (
    0.0,
    -0.0,
    1.0,
    1 + 1e-6,
    1 - 1e-6,
    1e-3,
    1e-7,
    1e-10,
    1e-30,
    1e-42,  # subnormal in 32 bits
    -1.0,
    2.0,
    0.5,
    -1e-10,
    6.0,
    3e38,
    float("inf"),
    float("-inf"),
    float("nan"),
)
"""What a rule could take for 0 or 1, and what swallows everything else."""

MILD = (1.0, 0.5, 2.0, -1.0, 0.0, 3.0, 1e-3, 1 + 1e-6)
"""Nothing that hides what comes after it."""

TINY = (1e-5, 1e-12, 1e-10, 1e-7, 1e-3, 0.0, 1e-30, 1.0)
"""What stands under a root, in a logarithm or in a quotient."""

EDGES = {
    np.dtype(np.int64): (0, 1, -1, 2, 3, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 40),
    np.dtype(np.int32): (0, 1, -1, 2, 3, (1 << 31) - 1, -(1 << 31)),
    np.dtype(np.uint8): (0, 1, 2, 127, 128, 255),
    np.dtype(np.int8): (0, 1, -1, 127, -128),
}
"""Integers at which something wraps around."""

FILLS = ("ordinary", "same", "one other", "mixed")
"""How an array is filled: as weights are, one number throughout, one element that differs, all kinds."""


def forms(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The shapes that broadcast to this one, or with it to a larger one; the simple ones first."""
    found: list[tuple[int, ...]] = [(), (1,), shape]
    if shape:
        found += [shape[-1:], (1,) * len(shape), (1,) * (len(shape) + 1), (*shape[:-1], 1)]
    if len(shape) > 1:
        found += [(*shape[1:2], *[1] * (len(shape) - 2)), (1, *shape[1:]), shape[1:]]
    if 1 in shape:
        found.append(tuple(3 if size == 1 else size for size in shape))
    return tuple(dict.fromkeys(found))


def filled(
    random: np.random.Generator, shape: tuple[int, ...], fill: str, number: float, dtype: type = np.float32
) -> np.ndarray:
    """An array of this shape; `number` is what it is made of or what stands out in it."""
    with np.errstate(over="ignore"):
        if fill == "same":
            return np.full(shape, number, dtype)
        if fill == "mixed":
            return random.choice(np.array([number, 1.0, 0.0, -0.5]), shape).astype(dtype)
        array = random.uniform(-1.0, 1.0, shape).astype(dtype)
        if fill == "one other":
            array = np.full(shape, round(number) if abs(number) < 3 else 1.0, dtype)
            if array.size:
                array.reshape(-1)[int(random.integers(array.size))] = number
        return array
