"""What earlier searches left in the cache: whole outcomes, and variants.

How fast candidates were is not among it: speeds of two moments are not comparable, so they race again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from edgeopt.bundle import write
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import BundleError, UsageError
from edgeopt.events import Emit, Log, Progress
from edgeopt.hw.probe import probe
from edgeopt.search.cache.digests import key_of
from edgeopt.search.cache.record import Record
from edgeopt.search.cache.store import Store
from edgeopt.search.cache.user import user_store
from edgeopt.search.keys import MODEL, NAME, Keys, differences, is_own
from edgeopt.search.making.messages import Made, Make
from edgeopt.search.outcome import Outcome
from edgeopt.search.racing.standings import final
from edgeopt.search.settings import Settings

BUNDLE, VARIANT = "bundle", "variant"
_AGAIN = "Search first and let it finish (a stopped search is not kept), then pick from its table."


@dataclass(slots=True)
class Remembered:
    """What one search may take from those before it, and leaves to those after it."""

    settings: Settings
    emit: Emit
    store: Store = field(init=False)
    keys: Keys = field(init=False)
    key: str | None = field(init=False, default=None)
    """Of the whole outcome; None where there is nothing to look for."""
    parts: dict[str, str] = field(init=False, default_factory=dict)
    """What the key is made of."""

    def __post_init__(self) -> None:
        self.store = user_store(lambda why: self.emit(Log("info", why)))
        if self.store.on:
            self.emit(Progress("reading the model", "looking it up in the cache"))
            self.keys = Keys(probe())
            self.parts = self.keys.parts(self.settings) or {}
            self.key = key_of(self.parts) if self.parts else None

    @property
    def on(self) -> bool:
        """Variants are kept for the next search."""
        return self.store.on

    def of_variants(self, limit_s: float) -> "VariantMemory | None":
        """`limit_s`: for the whole search."""
        if not self.store.on:
            return None
        return VariantMemory(
            self.store, self.keys, self.settings.model.name, limit_s, self.settings.fresh, self.emit
        )

    def needed(self, folder: Path) -> Outcome:
        """The same; UsageError, with what is different now, where the cache does not have it."""
        known = self.known(folder)
        if known is None:
            raise self._missing()
        return known

    def known(self, folder: Path) -> Outcome | None:
        """The outcome of the same search, without its bundle; `folder` is for what comes with it."""
        kept = self.store.get(BUNDLE, self.key, folder) if self.key is not None else None
        try:
            return None if kept is None else msgspec.msgpack.decode(kept.document, type=Outcome)
        except msgspec.MsgspecError:
            return None

    def recall(self) -> Outcome | None:
        """The outcome of the same search, with its bundle in place; None if none can be used.

        One that was undecided can still be picked from, but answers no second search.
        """
        out = self.settings.out
        if self.key is None or self.settings.fresh or not self.store.has(BUNDLE, self.key):
            return None
        with write.draft(out) as folder:
            kept = self.store.get(BUNDLE, self.key, folder)
            if kept is None:
                return None
            try:
                outcome = msgspec.msgpack.decode(kept.document, type=Outcome)
                read_bundle(folder)
            except (msgspec.MsgspecError, BundleError):
                self.store.drop(BUNDLE, self.key)
                return None
            if outcome.verdict == "undecided":  # the machine was too busy, or time too short, to tell
                self.emit(Log("info", f"{said_of(kept.made_at)}: undecided, so this search measures again."))
                return None
            write.publish(folder, out, single_file=self.settings.single_file)
        self._tell(outcome, kept.made_at)
        at = kept.made_at.isoformat(timespec="seconds")
        return msgspec.structs.replace(outcome, bundle=str(out), from_cache=at)

    def _missing(self) -> UsageError:
        if not self.store.on:
            return UsageError("There is no search cache to pick from: it is off, or cannot be written.", _AGAIN)
        if is_own(self.settings.goal.metric):
            return UsageError(
                "A search with a metric of your own is not cached, so there is nothing to pick from.",
                "Candidates can be picked after a search with one of the built-in metrics.",
            )
        model, name = self.parts.get(MODEL), self.settings.model.name
        found = [
            (differences(self.parts, one.parts), one.made_at)
            for one in self.store.records(BUNDLE)
            if one.parts and (one.parts.get(MODEL) == model or one.parts.get(NAME) == name)
        ]
        if not found:
            return UsageError(f"The cache has no finished search of {name}.", _AGAIN)
        changed, made_at = min(found, key=lambda one: len(one[0]))
        return UsageError(
            f"The cache has no search of {name} with the same data, settings and packages. Different from the "
            f"search of {made_at:%Y-%m-%d %H:%M} UTC: {', '.join(changed)}.",
            "Give that search's options, data and packages again, or search again and pick from the new table.",
        )

    def keep(self, outcome: Outcome) -> Outcome:
        """Keeps the outcome of a search that came to its end, with the bundle as it was written."""
        if self.key is None:
            return outcome
        try:
            bundle = read_bundle(self.settings.out)
        except (BundleError, OSError):
            return outcome  # somebody took or replaced it meanwhile
        outcome = msgspec.structs.replace(outcome, is_cached=True)
        files = {f.relative_to(bundle.folder).as_posix(): f for f in bundle.folder.rglob("*") if f.is_file()}
        title = f"{outcome.model}: {outcome.verdict}, {outcome.proof.speedup.median:.2f}x, {outcome.winner.name}"
        record = Record(BUNDLE, title, datetime.now(UTC), {}, msgspec.msgpack.encode(outcome), self.parts)
        self.store.put(BUNDLE, self.key, record, files)
        return msgspec.structs.replace(outcome, is_cached=self.store.has(BUNDLE, self.key))

    def _tell(self, outcome: Outcome, made_at: datetime) -> None:
        for one in outcome.candidates:
            self.emit(final(one))
        for warning in outcome.warnings:
            self.emit(Log("warning", warning))
        self.emit(Log("info", f"{said_of(made_at)}: nothing was measured. --fresh searches again."))


@dataclass(slots=True)
class VariantMemory:
    """The variants of earlier searches, and where those of this one go."""

    store: Store
    keys: Keys
    model: str
    """Its file's name."""
    limit_s: float
    fresh: bool
    """None is taken."""
    emit: Emit
    _told: bool = field(init=False, default=False)

    def find(self, job: Make) -> Made | None:
        """A variant as it was made before, its files where the job wants them."""
        key = None if self.fresh else self.keys.of_variant(job, self.limit_s)
        folder = Path(job.out_path).parent
        kept = self.store.get(VARIANT, key, folder) if key is not None else None
        if kept is None:
            return None
        made = _with_paths(msgspec.msgpack.decode(kept.document, type=Made), lambda path: folder / path)
        self.emit(Progress("making variants", f"{job.recipe}: from the cache"))
        if not self._told:
            self._told = True
            self.emit(Log("info", "Reusing variants of an earlier search; all are measured again."))
        return made

    def learn(self, job: Make, made: Made) -> None:
        """Keeps a variant as soon as it is made: whatever ends this search, the next one has it."""
        key = self.keys.of_variant(job, self.limit_s)
        if key is None:
            return
        folder = Path(job.out_path).parent
        places = [Path(one.path).parent for one in made.plans.variants] if made.plans else [folder]
        files = {f.relative_to(folder).as_posix(): f for place in places for f in place.iterdir() if f.is_file()}
        relative = _with_paths(made, lambda path: path.relative_to(folder))
        where = f" for {', '.join(job.backends)}" if job.backends else ""
        title = f"{self.model}: {job.recipe}{where}"
        record = Record(VARIANT, title, datetime.now(UTC), {}, msgspec.msgpack.encode(relative))
        self.store.put(VARIANT, key, record, files)


def said_of(made_at: datetime) -> str:
    return f"From the cache, measured at {made_at:%Y-%m-%d %H:%M} UTC"


def _with_paths(made: Made, place: Callable[[Path], Path]) -> Made:
    if made.plans is None:
        return made
    moved = (msgspec.structs.replace(one, path=str(place(Path(one.path)))) for one in made.plans.variants)
    return msgspec.structs.replace(made, plans=msgspec.structs.replace(made.plans, variants=tuple(moved)))
