"""Results of earlier searches in the cache: whole outcomes, and variants.

A new search does not reuse the speeds of candidates: speeds of two moments are not comparable, so they race again.
"""

import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

import msgspec

from edgeopt.bundle import write
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.locate import encoder_beside
from edgeopt.decoding import thread_safe
from edgeopt.errors import BundleError, EdgeoptError, UsageError, flag_of
from edgeopt.events import Emit, Log, Progress
from edgeopt.hw.device import Device, fingerprint
from edgeopt.hw.probe import probe
from edgeopt.pipeline.builders.messages import Made, Make
from edgeopt.pipeline.cache.store import (
    CacheRecord,
    Store,
    code_digest,
    file_digest,
    key_of,
    settings_of_libraries,
    tree_digest,
    versions,
)
from edgeopt.pipeline.cache.user import user_store
from edgeopt.pipeline.outcome import Outcome
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.pipeline.screen import final
from edgeopt.plugins import installed_plugins
from edgeopt.profiles.presets import shipped_presets
from edgeopt.profiles.targets import profile_for
from edgeopt.text.tokenizer import text_folder

# Packages that rewrite and quantize models; the device's fingerprint includes the runtimes too.
_LIBRARIES = ("numpy", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "openvino", "nncf", "scipy", "sympy")
# The place and form of a bundle do not change its content; profiles and goals are in the key by their content.
_IGNORED_FIELDS = frozenset({"out", "single_file", "fresh", "pick", "profile", "floor", "metric", "max_drop"})
NAME = "the name of the model file"
MODEL = flag_of("model")
# Options that name a file: the file's content counts.
_FILES = {
    MODEL: "the content of the model",
    **{flag_of(name): f"the content of {flag_of(name)}" for name in ("data", "baseline", "pre", "post")},
}
_PATHS = frozenset({"source_path", "base_path", "out_path", "samples_path"})


# Parts of a device's fingerprint that need another word here.
_DEVICE = {"host": "system", "limits": "CPU and memory limits", "runtimes": "installed runtimes"}
# Longer values are compared by digest: they would be unreadable in a sentence.
_READABLE = 40


class _Common(TypedDict):
    edgeopt: str
    libraries: dict[str, str]
    environment: dict[str, str]
    device: dict[str, str]


@dataclass(slots=True)
class Keys:
    """Cache keys of one search."""

    device: Device
    common: _Common = field(init=False)
    """Parts on which every key depends."""
    _digests: dict[Path, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.common = {
            "edgeopt": code_digest(),
            "libraries": versions(_LIBRARIES),
            "environment": settings_of_libraries(),
            "device": fingerprint(self.device),
        }

    def of_outcome(self, settings: OptimizeRequest) -> str | None:
        """Returns the key of an outcome; None for a metric of the user's own, and for unreadable files."""
        parts = self.parts(settings)
        return None if parts is None else key_of(parts)

    def parts(self, settings: OptimizeRequest) -> dict[str, str] | None:
        """Returns the parts of the key of an outcome, by their names for people; long values are digests."""
        goal = settings.goal
        if is_own(goal.metric):
            return None
        profile = profile_for(self.device, settings.target, settings.profile)
        relevant = {
            name: value for name, value in msgspec.structs.asdict(settings).items() if name not in _IGNORED_FIELDS
        }
        try:
            content = {name: _content(v) if isinstance(v, Path) else v for name, v in relevant.items()}
            plugins = _plugins() if settings.plugins else {}
        except (OSError, EdgeoptError):
            return None
        text, encoder = text_folder(settings.model), encoder_beside(settings.model)
        # Pillow reads pictures only.
        readers = versions(("pillow",)) if settings.data is not None and settings.data.is_dir() else {}
        found = {
            NAME: settings.model.name,  # the bundle contains the name
            "the code of edgeopt": self.common["edgeopt"],
            **self.common["libraries"],
            **readers,
            **{f"the variable {name}": value for name, value in self.common["environment"].items()},
            **{f"the {_DEVICE.get(name, name)}": value for name, value in self.common["device"].items()},
            "the target profile": profile,
            "the presets": shipped_presets(),
            **plugins,
            **({"the tokenizer": tree_digest(text)} if text.is_dir() else {}),
            **({"the encoder": model_digest(encoder)} if encoder is not None else {}),
            "the accuracy goal": goal,
            **{flag_of(name): value for name, value in content.items()},
        }
        return {name: _as_text(value) for name, value in found.items()}

    def of_variant(self, job: Make, limit_s: float) -> str | None:
        """Returns the key of a variant; None if it was planned by a metric of the user's own.

        `limit_s` is the time limit of the whole search, which decides how much is planned.
        """
        if job.planning is not None and is_own(job.planning.goal.metric):
            return None
        settings = {name: value for name, value in msgspec.to_builtins(job).items() if name not in _PATHS}
        if job.planning is not None:
            # The remaining time differs from run to run.
            configs = sorted(settings["planning"]["configs"], key=repr)  # in the order of their speed just now
            settings["planning"] = {**settings["planning"], "limit_s": limit_s, "configs": configs}
        files = {
            "source": self._digest(Path(job.source_path), is_model=True),
            "base": self._digest(Path(job.base_path), is_model=True),
            "samples": self._digest(Path(job.samples_path), is_model=False),
        }
        return key_of({**self.common, "asked": settings, **files})

    def _digest(self, path: Path, is_model: bool) -> str:
        """Returns the digest of a file, which is read once: the files of a search do not change."""
        if path not in self._digests:
            self._digests[path] = model_digest(path) if is_model else tree_digest(path)
        return self._digests[path]


def _plugins() -> dict[str, str]:
    """Returns the digest of each plug-in's state and files: an author changes them without a new version."""
    return {
        f"the plug-in {one.name}": key_of(
            {"state": one.state, "version": one.version, "files": _code_of(one.folder)}
        )
        for one in installed_plugins()
    }


def _code_of(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    files = (file for file in folder.rglob("*") if "__pycache__" not in file.parts)
    return {str(file.relative_to(folder)): file_digest(file) for file in files if file.is_file()}


def model_digest(path: Path) -> str:
    """Returns the digest of a model with its external data."""
    digests = {"": file_digest(path)}
    # Without the key of external data in it, a file has none; to be sure that it has, the slow library is asked.
    if _mentions(path, b"location"):
        import onnx

        from edgeopt.graph.files.tensors import external_files

        proto = onnx.load(path, load_external_data=False)
        digests |= {file.name: file_digest(file) for file in external_files(proto, path)}
    return key_of(digests)


def is_own(metric: str) -> bool:
    """Whether the metric is a function of the user's, which may read data that edgeopt cannot know."""
    return ":" in metric


def _as_text(value: object) -> str:
    """Returns short values as text, and long ones as digests."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return text if len(text) <= _READABLE else key_of({"": text})


def differences(now: Mapping[str, str], then: Mapping[str, str]) -> list[str]:
    """Describes the differences between the parts of two keys."""
    return [
        _difference(name, now.get(name), then.get(name))
        for name in {**now, **then}
        if now.get(name) != then.get(name)
    ]


def _difference(name: str, now: str | None, then: str | None) -> str:
    if now is None or then is None:
        return f"{name} (only {'then' if now is None else 'now'})"
    readable = max(len(now), len(then)) <= _READABLE
    if name in _FILES:
        return _FILES[name]
    return f"{name} ({_plain(then)} then, {_plain(now)} now)" if readable else name


def _plain(text: str) -> str:
    return {"null": "not given", "": "not given", "[]": "not given", "true": "on", "false": "off"}.get(text, text)


def _content(path: Path) -> str:
    if path.suffix == ".xml":  # an OpenVINO model, whose weights lie beside it
        weights = path.with_suffix(".bin")
        return key_of({file.suffix: file_digest(file) for file in (path, weights) if file.is_file()})
    return model_digest(path) if path.suffix == ".onnx" else tree_digest(path)


def _mentions(path: Path, word: bytes) -> bool:
    if path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(word) >= 0


BUNDLE, VARIANT = "bundle", "variant"
_AGAIN = "Search first and let it finish (a stopped search is not kept), then pick from its table."


@dataclass(slots=True)
class SearchCache:
    """Results that one search may take from the cache, and that it keeps for later ones."""

    settings: OptimizeRequest
    emit: Emit
    store: Store = field(init=False)
    keys: Keys = field(init=False)
    key: str | None = field(init=False, default=None)
    """Key of the whole outcome; None if there is nothing to look for."""
    parts: dict[str, str] = field(init=False, default_factory=dict)
    """Parts of the key."""

    def __post_init__(self) -> None:
        self.store = user_store(lambda why: self.emit(Log("info", why)))
        if self.store.on:
            self.emit(Progress("reading the model", "looking it up in the cache"))
            self.keys = Keys(probe())
            self.parts = self.keys.parts(self.settings) or {}
            self.key = key_of(self.parts) if self.parts else None

    @property
    def on(self) -> bool:
        """Whether variants are kept for the next search."""
        return self.store.on

    def of_variants(self, limit_s: float) -> "VariantMemory | None":
        """Returns the variants in the cache, if it is on; `limit_s` is for the whole search."""
        if not self.store.on:
            return None
        return VariantMemory(
            self.store, self.keys, self.settings.model.name, limit_s, self.settings.fresh, self.emit
        )

    def needed(self, folder: Path) -> Outcome:
        """Returns the outcome of the same search; raises UsageError with the differences if there is none."""
        known = self.known(folder)
        if known is None:
            raise self._missing()
        return known

    def known(self, folder: Path) -> Outcome | None:
        """Returns the outcome of the same search, without its bundle; `folder` receives the files with it."""
        kept = self.store.get(BUNDLE, self.key, folder) if self.key is not None else None
        try:
            return None if kept is None else msgspec.msgpack.decode(kept.document, type=thread_safe(Outcome))
        except msgspec.MsgspecError:
            return None

    def recall(self) -> Outcome | None:
        """Returns the outcome of the same search, with its bundle in place; None if none can be used.

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
                outcome = msgspec.msgpack.decode(kept.document, type=thread_safe(Outcome))
                read_bundle(folder)
            except (msgspec.MsgspecError, BundleError):
                self.store.drop(BUNDLE, self.key)
                return None
            if outcome.verdict == "undecided":  # the machine was too busy, or time too short, to tell
                self.emit(Log("info", f"{cached_at(kept.made_at)}: undecided, so this search measures again."))
                return None
            write.publish(folder, out, single_file=self.settings.single_file)
        self._emit_outcome(outcome, kept.made_at)
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
        """Stores the outcome of a search that came to its end, with the bundle as it was written."""
        if self.key is None:
            return outcome
        try:
            bundle = read_bundle(self.settings.out)
        except (BundleError, OSError):
            return outcome  # another process took or replaced it meanwhile
        outcome = msgspec.structs.replace(outcome, is_cached=True)
        files = {f.relative_to(bundle.folder).as_posix(): f for f in bundle.folder.rglob("*") if f.is_file()}
        title = f"{outcome.model}: {outcome.verdict}, {outcome.proof.speedup}, {outcome.winner.name}"
        record = CacheRecord(BUNDLE, title, datetime.now(UTC), {}, msgspec.msgpack.encode(outcome), self.parts)
        self.store.put(BUNDLE, self.key, record, files)
        return msgspec.structs.replace(outcome, is_cached=self.store.has(BUNDLE, self.key))

    def _emit_outcome(self, outcome: Outcome, made_at: datetime) -> None:
        for one in outcome.candidates:
            self.emit(final(one))
        for warning in outcome.warnings:
            self.emit(Log("warning", warning))
        self.emit(Log("info", f"{cached_at(made_at)}: nothing was measured. --fresh searches again."))


@dataclass(slots=True)
class VariantMemory:
    """Cache of variants: those of earlier searches, and those of this one."""

    store: Store
    keys: Keys
    model: str
    """Name of the model's file."""
    limit_s: float
    fresh: bool
    """Whether no variant is taken from the cache."""
    emit: Emit
    _has_reported: bool = field(init=False, default=False)

    def find(self, job: Make) -> Made | None:
        """Returns a variant of an earlier search, with its files where the job wants them, or None."""
        key = None if self.fresh else self.keys.of_variant(job, self.limit_s)
        folder = Path(job.out_path).parent
        kept = self.store.get(VARIANT, key, folder) if key is not None else None
        if kept is None:
            return None
        made = _with_paths(
            msgspec.msgpack.decode(kept.document, type=thread_safe(Made)), lambda path: folder / path
        )
        self.emit(Progress("making variants", f"{job.recipe}: from the cache"))
        if not self._has_reported:
            self._has_reported = True
            self.emit(Log("info", "Reusing variants of an earlier search; all are measured again."))
        return made

    def store_variant(self, job: Make, made: Made) -> None:
        """Stores a variant as soon as it is made, so that the next search has it however this one ends."""
        key = self.keys.of_variant(job, self.limit_s)
        if key is None:
            return
        folder = Path(job.out_path).parent
        places = [Path(one.path).parent for one in made.plans.variants] if made.plans else [folder]
        files = {f.relative_to(folder).as_posix(): f for place in places for f in place.iterdir() if f.is_file()}
        relative = _with_paths(made, lambda path: path.relative_to(folder))
        where = f" for {', '.join(job.backends)}" if job.backends else ""
        title = f"{self.model}: {job.recipe}{where}"
        record = CacheRecord(VARIANT, title, datetime.now(UTC), {}, msgspec.msgpack.encode(relative))
        self.store.put(VARIANT, key, record, files)


def cached_at(made_at: datetime) -> str:
    return f"From the cache, measured at {made_at:%Y-%m-%d %H:%M} UTC"


def _with_paths(made: Made, place: Callable[[Path], Path]) -> Made:
    if made.plans is None:
        return made
    moved = (msgspec.structs.replace(one, path=str(place(Path(one.path)))) for one in made.plans.variants)
    return msgspec.structs.replace(made, plans=msgspec.structs.replace(made.plans, variants=tuple(moved)))
