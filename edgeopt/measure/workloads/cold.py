"""Cold starts: the time to the first answer, by phase, in a fresh process each time."""

import ctypes
import importlib.util
import mmap
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt.backends import known_backends
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Metric, Progress
from edgeopt.measure.contender import Side, failed
from edgeopt.measure.instruments.gauges import Gauges
from edgeopt.measure.messages import Load, Loaded
from edgeopt.measure.schedules import COLD
from edgeopt.measure.stats import total
from edgeopt.measure.workloads.loop import LoopMember, comparisons, run_members
from edgeopt.measure.workloads.records import ColdReport, ColdRules, ColdSide, ColdStart, Spread
from edgeopt.platform.files import drop_cached
from edgeopt.workers.host import TrialHost

_PAGE_BYTES = mmap.PAGESIZE
# File names that exporters and OpenVINO give to weights, beside the model's own name.
_WEIGHTS = (".bin", ".data", ".onnx_data", ".weights", ".pb")
_PATIENCE_S = 120.0
# A smaller share in memory is only the first pages, which the kernel itself keeps.
_KEPT_SHARE = 0.05


class Dropped(NamedTuple):
    """Bytes of the files in memory before and after dropping them; None if the system does not report it."""

    size_bytes: int
    before_bytes: int | None
    after_bytes: int | None


_LIBRARIES = ("*.so*", "*.dylib", "*.dll", "*.pyd")


def model_files(load: Load) -> tuple[Path, ...]:
    """Returns the model files that a trial reads: all of a bundle, or a file and its weights."""
    path = Path(load.model_path)
    if path.is_dir():
        return tuple(sorted(p for p in path.rglob("*") if p.is_file()))
    if not path.is_file():
        return ()  # a program or an address
    stem = path.name.removesuffix(path.suffix)
    beside = (p for p in path.parent.iterdir() if p.is_file() and p != path)
    named_after = (p for p in beside if p.name.startswith((path.name, f"{stem}.")) and p.suffix in _WEIGHTS)
    return (path, *sorted(named_after))


def library_files(package: str | None) -> tuple[Path, ...]:
    """Returns the native libraries of a runtime's Python package."""
    found = importlib.util.find_spec(package) if package else None
    folders = [Path(f) for f in (found.submodule_search_locations or ())] if found else []
    return tuple(sorted({p for f in folders for kind in _LIBRARIES for p in f.rglob(kind) if p.is_file()}))


def drop(files: Iterable[Path]) -> Dropped:
    """Asks the kernel to drop these files from the page cache; those in use by other processes stay."""
    paths = list(files)
    before = [resident_bytes(path) for path in paths]
    for path in paths:
        drop_cached(path)
    after = [resident_bytes(path) for path in paths]
    return Dropped(sum(p.stat().st_size for p in paths), total(before), total(after))


def resident_bytes(path: Path) -> int | None:
    """Returns the bytes of a file in memory, by mincore(2), which reads none of it; None if that fails."""
    size = path.stat().st_size
    if size == 0:
        return 0
    try:
        mincore = ctypes.CDLL(None).mincore
    except (OSError, AttributeError, TypeError):  # the last on Windows
        return None
    pages = (size + _PAGE_BYTES - 1) // _PAGE_BYTES
    found = (ctypes.c_ubyte * pages)()
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        failed = mincore(ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(size), found)
        del view  # or the map could not be closed
    if failed:
        return None
    return min(size, sum(page & 1 for page in found) * _PAGE_BYTES)


@dataclass(slots=True, kw_only=True)
class _Starting(LoopMember):
    load: Load
    model: tuple[Path, ...]
    libraries: tuple[Path, ...]
    kept: list[float | None] = field(default_factory=list)
    """Share of the model's files that stayed in memory, by start."""
    libraries_kept: list[float | None] = field(default_factory=list)


def run_cold(host: TrialHost, sides: Sequence[Side], rules: ColdRules, emit: Emit) -> ColdReport:
    """Starts the sides interleaved, in fresh processes; raises TrialError if none can start."""
    if rules.repetitions < 1:
        raise UsageError("A cold start must be repeated at least once.", "Give --rounds 9 or so.")
    begin = time.monotonic()
    gauges = Gauges(emit)
    members = [
        _Starting(
            side.name,
            load=side.load,
            model=model_files(side.load) if rules.drop_files else (),
            libraries=library_files(_package(side.load)) if rules.drop_libraries else (),
        )
        for side in sides
    ]

    def start(member: _Starting) -> ColdStart:
        emit(Progress("starting", member.name, len(member.rounds), rules.repetitions))
        return _start(host, member, gauges)

    watch = run_members(members, sides, COLD.limited(rules.repetitions), start)
    return ColdReport(
        sides=tuple(_side(member) for member in members),
        comparisons=comparisons(members, lambda start: start.total_ms, COLD),
        load_comparisons=comparisons(members, lambda start: start.load_ms, COLD),
        cache=_cache_sentence(members, rules),
        measured_while=watch.sentence,
        seconds=time.monotonic() - begin,
    )


def _start(host: TrialHost, member: _Starting, gauges: Gauges) -> ColdStart:
    """Measures one start in a process of its own, which is ended afterwards."""
    for files, kept in ((member.model, member.kept), (member.libraries, member.libraries_kept)):
        if files:
            found = drop(files)
            kept.append(None if found.after_bytes is None else found.after_bytes / max(1, found.size_bytes))
    begin_s = time.monotonic()
    child = host.start()
    try:
        answer = gauges.ask(child, member.load, _PATIENCE_S, member.name)
        if not isinstance(answer, Loaded):
            raise failed(answer)
        gauges.sample([child], member.name)
    finally:
        child.close()
    import_ms = answer.import_ms or 0.0
    start_ms = 0.0 if answer.begin_s is None else max(0.0, answer.begin_s - begin_s) * 1e3
    total_ms = start_ms + import_ms + answer.load_ms + answer.first_run_ms
    gauges.emit(Metric("first_answer_ms", total_ms, member.name))
    return ColdStart(start_ms, import_ms, answer.load_ms, answer.first_run_ms, total_ms)


def _package(load: Load) -> str | None:
    """Returns the Python package of the runtime; for a bundle, reads the bundle to find its backend."""
    if load.backend == "bundle":
        from edgeopt.bundle.read import read_bundle

        name = read_bundle(Path(load.model_path)).deployment.run.backend
    else:
        name = load.backend
    return next((b.package for b in known_backends() if b.name == name), None)


def _side(member: _Starting) -> ColdSide:
    starts = tuple(member.rounds.values())
    if not starts:
        return ColdSide(member.name, failure=member.failure)
    known = [k for k in member.kept if k is not None]
    phases = {name: _spread([getattr(start, name) for start in starts]) for name in ColdStart.__struct_fields__}
    kept_percent = 100 * float(np.median(known)) if known else None
    side = ColdSide(member.name, starts, kept_percent=kept_percent, failure=member.failure)
    return msgspec.structs.replace(side, **phases)


def _spread(values: Sequence[float]) -> Spread:
    low, median, high = (float(v) for v in np.percentile(values, [25, 50, 75]))
    return Spread(median, low, high)


def _cache_sentence(members: list[_Starting], rules: ColdRules) -> str:
    if not rules.drop_files and not rules.drop_libraries:
        return "Files may have been in memory: these are starts with a warm page cache."
    if not any(m.model or m.libraries for m in members):
        return "Nothing was dropped from the page cache: no side is a file."
    parts = []
    for what, kept, is_requested in (
        ("model files", [k for m in members for k in m.kept], rules.drop_files),
        ("runtime's libraries", [k for m in members for k in m.libraries_kept], rules.drop_libraries),
    ):
        if is_requested and kept:
            parts.append(_kept_words(what, kept))
    if not rules.drop_libraries:
        parts.append("Python and the runtime's libraries came from memory.")
    return " ".join(parts)


def _kept_words(what: str, kept: Sequence[float | None]) -> str:
    known = [k for k in kept if k is not None]
    if not known:
        return f"The system was asked to drop the {what} from the page cache; whether it did is unknown."
    share = float(np.median(known))
    if share <= _KEPT_SHARE:
        return f"The {what} were read from the disk at each start."
    if share >= 1 - _KEPT_SHARE:
        return (
            f"The {what} stayed in memory although the kernel was asked to drop them (a memory file "
            "system, or other processes use them): these are starts with a warm page cache."
        )
    return (
        f"{100 * share:.0f} % of the {what} stayed in memory: other processes use them; the rest was read again."
    )
