"""Reads the formats of /proc and /sys; whatever does not fit a format is left out."""

import functools
from collections.abc import Iterable

Block = dict[str, str]
CPU_NUMBER_LIMIT = 65536
_LONGEST_NAME = 200
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


# Several probes read the same text, and on a server with hundreds of CPUs splitting it takes milliseconds.
@functools.lru_cache(maxsize=2)
def blocks(text: str) -> tuple[Block, ...]:
    """The `key : value` blocks of /proc/cpuinfo, one a CPU (and on Arm sometimes one for the board).

    To be read only: the same blocks are handed to all who ask.
    """
    found: list[Block] = []
    current: Block = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not line.strip() and current:
            found.append(current)
            current = {}
        elif colon:
            current[key.strip()] = value.strip()
    if current:
        found.append(current)
    return tuple(found)


def values(found: Iterable[Block], key: str) -> tuple[str, ...]:
    """The different values of a key over all blocks, in the order of their first appearance."""
    return tuple(dict.fromkeys(block[key] for block in found if block.get(key)))


def name(text: str | None) -> str | None:
    """A name as a person would give it, in one line; None for nothing, and for what a torn file holds."""
    stripped = (text or "").strip().rstrip("\0").strip()
    fits = stripped.isprintable() and "\ufffd" not in stripped and len(stripped) <= _LONGEST_NAME
    return stripped if stripped and fits else None


def whole(text: str | None) -> int | None:
    """A whole number, or None."""
    try:
        return int(text.strip(), 0) if text else None
    except ValueError:
        return None


def cpu_list(text: str | None) -> tuple[int, ...]:
    """The kernel's list format, `0-3,8`; empty where any part of it is not understood."""
    numbers: list[int] = []
    for part in (text or "").strip().split(","):
        first, _, last = part.partition("-")
        low, high = whole(first), whole(last or first)
        if low is None or high is None or not 0 <= low <= high < CPU_NUMBER_LIMIT:
            return ()
        numbers.extend(range(low, high + 1))
    return tuple(dict.fromkeys(numbers))


def cpu_mask(text: str | None) -> tuple[int, ...]:
    """The kernel's mask format, `000000ff,ffff0000`: 32 bits a group, the highest first."""
    groups = (text or "").strip().split(",")
    try:
        numbers = [int(group, 16) for group in groups]
    except ValueError:
        return ()
    if len(numbers) * 32 > CPU_NUMBER_LIMIT or not all(0 <= number < 1 << 32 for number in numbers):
        return ()
    return tuple(
        32 * place + bit
        for place, number in enumerate(reversed(numbers))
        for bit in range(number.bit_length())
        if number >> bit & 1
    )


def as_list(numbers: Iterable[int]) -> str:
    """Numbers in the kernel's list format: `0-3,8`."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def size_bytes(text: str | None) -> int | None:
    """A size as the caches of /sys write it, `1280K`; None where it is none or nothing."""
    stripped = (text or "").strip()
    digits = stripped.rstrip("KMG")
    unit = _UNITS.get(stripped[len(digits) :])
    number = whole(digits)
    return number * unit if number and unit and number > 0 else None


def counters(text: str | None) -> dict[str, int]:
    """Lines of `name value` or `name: value kB`, as in memory.stat and /proc/meminfo; kB becomes bytes."""
    found: dict[str, int] = {}
    for line in (text or "").splitlines():
        words = line.replace(":", " ").split()
        number = whole(words[1]) if len(words) > 1 else None
        if number is not None:
            found[words[0]] = number * 1024 if words[2:] == ["kB"] else number
    return found
