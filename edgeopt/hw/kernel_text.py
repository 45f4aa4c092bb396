"""Reads the formats of /proc and /sys; whatever does not fit a format is left out."""

from collections.abc import Iterable

Block = dict[str, str]
CPU_NUMBER_LIMIT = 65536


def blocks(text: str) -> tuple[Block, ...]:
    """The `key : value` blocks of /proc/cpuinfo, one a CPU (and on Arm sometimes one for the board)."""
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


def counters(text: str | None) -> dict[str, int]:
    """Lines of `name value` or `name: value kB`, as in memory.stat and /proc/meminfo; kB becomes bytes."""
    found: dict[str, int] = {}
    for line in (text or "").splitlines():
        words = line.replace(":", " ").split()
        number = whole(words[1]) if len(words) > 1 else None
        if number is not None:
            found[words[0]] = number * 1024 if words[2:] == ["kB"] else number
    return found
