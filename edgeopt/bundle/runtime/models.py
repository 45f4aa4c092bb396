"""`edgeopt.Models`: several models under one memory budget."""

import itertools
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.backends.base import Array, Feeds, Options
from edgeopt.bundle.runtime.forked import watch_forks
from edgeopt.bundle.runtime.isolated.session import Isolation
from edgeopt.bundle.runtime.session import Session, load
from edgeopt.errors import ConstraintError, OverloadError, UsageError
from edgeopt.nearest import near

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """One model, as it is now."""

    loaded: bool
    pinned: bool
    leases: int
    """Number of current users."""
    memory_bytes: int
    """Reserved for it: the resident memory of its worker, as last measured; 0 where it is not loaded."""
    requests: int
    """Number of answered requests; a lease counts as one."""
    loads: int
    evictions: int


@dataclass(frozen=True, slots=True)
class ModelsStatistics:
    budget_bytes: int
    memory_bytes: int
    """Reserved for all models together."""
    models: dict[str, ModelStatistics]


@dataclass(slots=True)
class _Entry:
    name: str
    path: Path
    backend: str | None
    options: Options | None
    pinned: bool
    needed_bytes: int
    """Memory that a load reserves: the size on disk, then the largest measured."""
    session: Session | None = None
    reserved_bytes: int = 0
    leases: int = 0
    last_use: int = 0
    requests: int = 0
    loads: int = 0
    evictions: int = 0

    def measure(self) -> None:
        """Between requests of a worker that starts there is nothing to measure."""
        memory = self.session.memory_bytes if self.session is not None else None
        if memory is not None:
            self.reserved_bytes = memory
            self.needed_bytes = max(self.needed_bytes, memory)


@dataclass(slots=True)
class _State:
    entries: dict[str, _Entry] = field(default_factory=dict)
    changing: bool = False
    """Whether a thread loads or evicts: one at a time, so that each knows what the one before it takes."""
    closed: bool = False


class Models:
    """Loads models by name when they are first used, each in a worker process, and keeps within `budget_bytes`.

    Where room is needed, the models that were not used for longest are evicted: their workers end. Models in use
    and pinned models stay. Any number of threads may use one object.
    """

    def __init__(
        self,
        paths: Mapping[str, str | Path] | None = None,
        *,
        budget_bytes: int,
        pinned: Collection[str] = (),
        isolation: Isolation | None = None,
        wait_limit_s: float = 60.0,
    ) -> None:
        """`wait_limit_s`: how long a request waits for models in use to make room, before an OverloadError."""
        if budget_bytes <= 0 or wait_limit_s < 0:
            raise UsageError(
                "A memory budget must be above zero.", "Give budget_bytes, and wait_limit_s from 0 on."
            )
        self._budget_bytes = budget_bytes
        self._isolation = isolation or Isolation()
        self._wait_limit_s = wait_limit_s
        self._state = _State()
        self._condition = threading.Condition()
        self._uses = itertools.count(1)
        for name, path in (paths or {}).items():
            self.add(name, path, pinned=name in pinned)
        for name in pinned:
            self._entry(name)
        watch_forks(self)

    def add(
        self,
        name: str,
        path: str | Path,
        backend: str | None = None,
        options: Options | None = None,
        *,
        pinned: bool = False,
    ) -> None:
        """Makes a bundle or model known; it is loaded when it is first used, and never evicted where pinned."""
        place = Path(path)
        if not place.exists():
            raise UsageError(f"There is no model or bundle at '{place}'.", "Check the path.")
        with self._condition:
            if name in self._state.entries:
                raise UsageError(f"There is a model '{name}' already.", "Choose another name.")
            self._state.entries[name] = _Entry(name, place, backend, options, pinned, _size_bytes(place))

    def run(self, name: str, feeds: Feeds | Array) -> dict[str, Array]:
        """Loads the model where it is not loaded, and runs it."""
        with self.lease(name) as session:
            return session.run(feeds)

    @contextmanager
    def lease(self, name: str) -> Iterator[Session]:
        """Yields the session of a model, which stays loaded until the end of `with`."""
        entry = self._entry(name)
        session = self._acquire(entry)
        try:
            yield session
        finally:
            self._release(entry)

    def statistics(self) -> ModelsStatistics:
        with self._condition:
            entries = self._state.entries
            models = {
                name: ModelStatistics(
                    entry.session is not None,
                    entry.pinned,
                    entry.leases,
                    entry.reserved_bytes,
                    entry.requests,
                    entry.loads,
                    entry.evictions,
                )
                for name, entry in entries.items()
            }
            return ModelsStatistics(self._budget_bytes, self._reserved_bytes(), models)

    def close(self) -> None:
        """Waits for the requests under way and ends all workers."""
        with self._condition:
            self._state.closed = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: not self._state.changing)
            sessions = [each.session for each in self._state.entries.values() if each.session is not None]
            for entry in self._state.entries.values():
                entry.session, entry.reserved_bytes = None, 0
        for session in sessions:
            session.close()

    def __enter__(self) -> "Models":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def before_fork(self) -> None:
        """Does nothing: the store shares nothing with a fork."""

    def after_fork(self) -> None:
        """Resets all models to not loaded: the workers belong to the parent."""
        self._condition = threading.Condition()
        entries = {
            name: _Entry(name, each.path, each.backend, each.options, each.pinned, each.needed_bytes)
            for name, each in self._state.entries.items()
        }
        self._state = _State(entries, closed=self._state.closed)

    def _entry(self, name: str) -> _Entry:
        found = self._state.entries.get(name)
        if found is None:
            known = self._state.entries
            meant = near(name, known)
            hint = f"Did you mean '{meant[0]}'?" if meant else f"There are: {', '.join(known) or 'none'}."
            raise UsageError(f"There is no model '{name}'.", hint)
        return found

    def _acquire(self, entry: _Entry) -> Session:
        until = time.monotonic() + self._wait_limit_s
        while True:
            with self._condition:
                while not self._may_go_on(entry):
                    if not self._condition.wait(until - time.monotonic()):
                        raise self._no_room(entry)
                if entry.session is not None:
                    entry.leases += 1
                    entry.last_use = next(self._uses)
                    return entry.session
                self._state.changing = True
            try:
                self._load(entry)
            finally:
                self._end_change()

    def _may_go_on(self, entry: _Entry) -> bool:
        """Whether it is loaded, or this thread may load it."""
        if self._state.closed:
            raise UsageError("These models are closed.", "Make a new edgeopt.Models.")
        if entry.session is not None:
            return True
        self._refuse_too_large(entry)
        return not self._state.changing and self._victims(entry.needed_bytes) is not None

    def _load(self, entry: _Entry) -> None:
        """Loads a model, and ends its worker again if it takes more memory than there is room for."""
        if not self._make_room(entry.needed_bytes):
            return
        session = load(entry.path, entry.backend, entry.options, isolate=self._isolation)
        try:
            memory = session.memory_bytes or 0
            entry.needed_bytes = max(entry.needed_bytes, memory)
            fits = self._make_room(memory)
        except BaseException:
            session.close()
            raise
        if not fits:
            session.close()
            return
        with self._condition:
            entry.session, entry.reserved_bytes = session, memory
            # The newest, or it would be the first to make room before its first request.
            entry.last_use = next(self._uses)
            entry.loads += 1

    def _release(self, entry: _Entry) -> None:
        with self._condition:
            entry.leases -= 1
            entry.requests += 1
            entry.measure()
            over = self._reserved_bytes() > self._budget_bytes and not self._state.changing
            self._state.changing |= over
            self._condition.notify_all()
        if over:
            self._end_change()

    def _end_change(self) -> None:
        """Evicts what has grown out of the budget meanwhile, and lets the others go on."""
        try:
            # Leased and pinned models may take more for a while; what is idle goes.
            while self._evict_one_over_budget():
                pass
        finally:
            with self._condition:
                self._state.changing = False
                self._condition.notify_all()

    def _evict_one_over_budget(self) -> bool:
        with self._condition:
            idle = self._idle()
            if self._reserved_bytes() <= self._budget_bytes or not idle:
                return False
            taken = self._take_sessions(idle[:1])
        self._end_workers(taken)
        return True

    def _make_room(self, needed_bytes: int) -> bool:
        with self._condition:
            victims = self._victims(needed_bytes)
            taken = self._take_sessions(victims or [])
        self._end_workers(taken)
        return victims is not None

    def _take_sessions(self, victims: list[_Entry]) -> list[tuple[_Entry, Session]]:
        taken = [(each, each.session) for each in victims if each.session is not None]
        for victim, _ in taken:
            victim.session = None
            victim.evictions += 1
        return taken

    def _end_workers(self, taken: list[tuple[_Entry, Session]]) -> None:
        for victim, session in taken:
            session.close()
            # Only now: until its worker has ended, it takes its memory.
            with self._condition:
                victim.reserved_bytes = 0

    def _victims(self, needed_bytes: int) -> list[_Entry] | None:
        """The models to evict for this much room, least recently used first; None if that is not enough."""
        room = self._budget_bytes - self._reserved_bytes()
        victims = []
        for entry in self._idle():
            if room >= needed_bytes:
                break
            victims.append(entry)
            room += entry.reserved_bytes
        return victims if room >= needed_bytes else None

    def _idle(self) -> list[_Entry]:
        entries = self._state.entries.values()
        idle = [each for each in entries if each.session is not None and not each.leases and not each.pinned]
        return sorted(idle, key=lambda each: each.last_use)

    def _reserved_bytes(self) -> int:
        return sum(each.reserved_bytes for each in self._state.entries.values())

    def _refuse_too_large(self, entry: _Entry) -> None:
        others = [each for each in self._state.entries.values() if each.pinned and each is not entry]
        pinned = sum(each.reserved_bytes for each in others)
        if entry.needed_bytes + pinned > self._budget_bytes:
            beside = f"; pinned models take {pinned // _MIB} MiB of it" if pinned else ""
            raise ConstraintError(
                f"The model '{entry.name}' needs {-(-entry.needed_bytes // _MIB)} MiB, more than the budget "
                f"of {self._budget_bytes // _MIB} MiB{beside}.",
                "Raise budget_bytes, pin fewer models, or use a smaller model.",
            )

    def _no_room(self, entry: _Entry) -> OverloadError:
        used = [each.name for each in self._state.entries.values() if each.leases]
        return OverloadError(
            f"There was no room for '{entry.name}' within {self._wait_limit_s:g} s: in use are {', '.join(used)}.",
            "Try again, use fewer models at the same time, or raise budget_bytes.",
        )


def _size_bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())
