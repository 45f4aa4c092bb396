"""Probes thousands of damaged recordings: never an exception, never an invented zero, never for long.

Each is one of the recorded machines of the tests with some of its files truncated, swapped, emptied or filled with
garbage, absurd numbers or other files' lines, and some recorded answers replaced. The seed and the number of a
recording make it again:

    .venv/bin/python benchmarks/fuzz_probe.py                      10,000 recordings
    .venv/bin/python benchmarks/fuzz_probe.py --only 4711 --show   one of them, with what was done to it
"""

import argparse
import json
import math
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from edgeopt.hw.device import Device
from edgeopt.hw.host import CALLS, RecordedHost
from edgeopt.hw.probe import probe

FAKEROOTS = Path(__file__).parents[1] / "tests" / "fakeroots"
LONGEST_S = 2.0
HUGE = (b"4294967295", b"18446744073709551615", b"9" * 40, b"1e308", b"65536", b"8193", b"2147483648")
NUMBERS = (*HUGE, b"0", b"-1", b"1", b"00", b"0x", b"nan", b"-0", b"1.5", b"\xc2\xb2", b"\xd9\xa3", b"max", b"")
MARKS = (b"\n", b"\n\n", b":", b" - ", b",", b"-", b"\x00", b"\xff\xfe", b"{", b"]", b"../..", b"kB", b"flags")
LINES = (b"0-65535", b"processor\t: 0", b"MemTotal: 0 kB", b"CPU part\t: 0xfff", b"isa\t: rv64imafdcv_zvl0b")
PIECES = (*MARKS, *LINES, b"physical id\t: -1")
FLOATS = (1.5, float("nan"), float("inf"))
ANSWERS: tuple[object, ...] = (
    None,
    0,
    -1,
    10**30,
    *FLOATS,
    "",
    "0",
    "x" * 100,
    [],
    [[]],
    [-1, 0],
    ["a", None],
    {},
    {"": 0},
    True,
)

# A zero there is what the system said, or an ordinary state of affairs.
ZERO_IS_FINE = re.compile(
    r"memory\.(available|usable|swap_\w+|huge_pages_\w+)(_bytes)?"
    r"|limits\.cgroup_memory_bytes"
    r"|numa\.\d+\.number"
    r"|accelerators\.\d+\.(index|numa_node|memory_free_bytes|temperature_c|utilization_percent|power_w)"
    r"|state\.(load_1m|steal_percent|temperatures_c\..*|battery_percent|power_w)"
    r"|cpu\.logical_cores"
)
# What holds of any machine on which this code runs.
WITHOUT_SOURCE = {("logical_cores", 1), ("simd_level", "baseline")}
NEGATIVE_IS_FINE = re.compile(r"(state\.temperatures_c\..*|accelerators\.\d+\.temperature_c)")


@dataclass(frozen=True)
class MemoryRecording(RecordedHost):
    """A recording with its files in memory, so that ten thousand of them need no disk."""

    files: dict[str, bytes] = field(default_factory=dict, compare=False)
    folders: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    def read(self, path: str) -> str | None:
        found = self.files.get(path.strip("/"))
        return None if found is None else found.decode("utf-8", "replace")

    def list(self, path: str) -> tuple[str, ...]:
        named = self._recorded("lists").get(path)
        if isinstance(named, list):
            return tuple(sorted(name for name in named if isinstance(name, str)))
        return self.folders.get(path.strip("/"), ())


@cache
def board_files(board: str) -> dict[str, bytes]:
    root = FAKEROOTS / board
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def boards() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in FAKEROOTS.glob(f"*/{CALLS}")))


def damaged(seed: int, number: int) -> tuple[str, MemoryRecording, list[str]]:
    """The board, the recording and what was done to it."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - nothing secret
    board = chance.choice(boards())
    files = dict(board_files(board))
    done = []
    for _ in range(chance.choice((1, 1, 2, 3, 5, 8, 20))):
        # The few files that hold much are worth as many tries as the hundreds that hold one number.
        large = [name for name in files if name.startswith("proc/") or name == CALLS]
        if choices := (*chance.sample(sorted(files), min(1, len(files))), *large):
            done.append(_damage(files, chance.choice(choices), chance))
    folders: dict[str, set[str]] = {}
    for path in files:
        parts = path.split("/")
        for depth in range(len(parts)):
            folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    listed = {folder: tuple(sorted(names)) for folder, names in folders.items()}
    return board, MemoryRecording(FAKEROOTS / board, None, files=files, folders=listed), done


def _damage(files: dict[str, bytes], path: str, chance: random.Random) -> str:
    text = files[path]
    kind = chance.choice(("truncate", "garbage", "empty", "delete", "number", "number", "swap", "piece", "lines"))
    if path == CALLS and chance.random() < 0.8:
        files[path] = _other_answers(text, chance)
        return f"{path}: other answers"
    if kind == "truncate":
        files[path] = text[: chance.randrange(len(text) + 1)]
    elif kind == "garbage":
        files[path] = chance.randbytes(chance.randrange(200))
    elif kind == "empty":
        files[path] = b""
    elif kind == "delete":
        del files[path]
    elif kind == "number":
        found = list(re.finditer(rb"\d+", text))
        if found:
            match = chance.choice(found)
            files[path] = text[: match.start()] + chance.choice(NUMBERS) + text[match.end() :]
    elif kind == "swap":
        other = chance.choice(list(files))
        files[path], files[other] = files[other], text
    elif kind == "piece":
        place = chance.randrange(len(text) + 1)
        files[path] = text[:place] + chance.choice(PIECES) + text[place:]
    else:
        lines = text.splitlines(keepends=True)
        chance.shuffle(lines)
        files[path] = b"".join(lines[: chance.randrange(len(lines) + 1)])
    return f"{path}: {kind}"


def _other_answers(text: bytes, chance: random.Random) -> bytes:
    try:
        tables = json.loads(text)
    except ValueError:
        return chance.randbytes(50)
    if not isinstance(tables, dict):
        return b"[1]"
    for table in tables.values():
        for key in list(table) if isinstance(table, dict) else ():
            if chance.random() < 0.3:
                table[key] = chance.choice(ANSWERS)
    if chance.random() < 0.1:
        tables[chance.choice(("calls", "run", "versions", "lists"))] = chance.choice(ANSWERS)
    return json.dumps(tables).encode()


def faults(device: Device) -> list[str]:
    """What must not be in any record, whatever the machine said."""
    cpu, limits, memory = device.cpu, device.limits, device.memory
    usable = 0 <= memory.usable_bytes <= memory.available_bytes <= memory.total_bytes
    rules = (
        (1 <= limits.usable_cores <= limits.affinity_cores, f"usable cores: {limits}"),
        (1 <= (cpu.physical_cores or 1) <= cpu.logical_cores, f"cores: {cpu}"),
        (usable and (memory.total_bytes or "memory" in device.unavailable), f"memory: {memory}"),
        (all(1 <= each.cores <= each.threads for each in device.clusters), f"clusters: {device.clusters}"),
        (all(device.unavailable.values()) and all(device.sources.values()), "an empty reason or source"),
        (msgspec.json.decode(msgspec.json.encode(device), type=Device) == device, "it does not survive the wire"),
    )
    found = [what for kept, what in rules if not kept]
    for path, value in _values(msgspec.to_builtins(device), ""):
        if _is_torn(path, value) if isinstance(value, str) else _is_absurd(path, value):
            found.append(f"{path} is {value!r}")
    for section in ("cpu", "limits", "clock"):
        for fact, value in (msgspec.to_builtins(getattr(device, section)) or {}).items():
            name = f"{section}.{fact}"
            if value is None and section == "cpu" and name not in device.unavailable:
                found.append(f"{name} is absent without a reason")
            if value and name not in device.sources and (fact, value) not in WITHOUT_SOURCE:
                found.append(f"{name} has no source")
    return found


def _values(value: object, path: str) -> Iterator[tuple[str, float | str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _values(inner, f"{path}.{place}")
    elif isinstance(value, int | float | str) and not isinstance(value, bool):
        yield path, value


def _is_torn(path: str, text: str) -> bool:
    if path.startswith("runtimes."):
        return False  # these answer in their own words, and the record holds them as they are
    return not text.isprintable() or "\ufffd" in text or len(text) > 1000


def _is_absurd(path: str, value: float) -> bool:
    if not math.isfinite(value) or value >= 2**63:
        return True
    if value < 0:
        return not NEGATIVE_IS_FINE.fullmatch(path)
    # The whole record of memory may be missing; then there is a reason, which `faults` asks for.
    return value == 0 and not ZERO_IS_FINE.fullmatch(path) and path != "memory.total_bytes"


def try_one(seed: int, number: int) -> tuple[str, list[str], float]:
    """The board, what is wrong with the record, and how long it took."""
    board, host, done = damaged(seed, number)
    started = time.perf_counter()
    try:
        wrong = faults(probe(host))
    except Exception:  # noqa: BLE001 - finding these is what this is for
        wrong = [traceback.format_exc()]
    took = time.perf_counter() - started
    if took > LONGEST_S:
        wrong = [*wrong, f"took {took:.1f} s"]
    return board, [f"#{number} ({board}; {', '.join(done)}): {what}" for what in wrong], took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one recording by its number")
    parser.add_argument("--show", action="store_true", help="print the record as JSON")
    options = parser.parse_args()
    numbers = range(options.count) if options.only is None else range(options.only, options.only + 1)
    tried: Counter[str] = Counter()
    wrong: list[str] = []
    longest = 0.0
    started = time.perf_counter()
    for number in numbers:
        board, found, took = try_one(options.seed, number)
        tried[board] += 1
        longest = max(longest, took)
        for line in found[:3] if len(wrong) < 60 else ():
            print(line, flush=True)
        wrong += found
        if options.show:
            print(msgspec.json.format(msgspec.json.encode(probe(damaged(options.seed, number)[1]))).decode())
    total = time.perf_counter() - started
    print(
        f"{sum(tried.values())} recordings of {len(tried)} boards, {total:.0f} s, slowest {longest * 1e3:.0f} ms"
    )
    print(f"{len(wrong)} faults" if wrong else "no exception, no invented zero")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
