"""Loads and checks profiles: every mistake is one sentence with the file, the table, the key and what is right."""

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import ProfileError
from edgeopt.hw.simd import NAMES as SIMD_NAMES
from edgeopt.nearest import nearest
from edgeopt.platform.command_line import join_words
from edgeopt.profiles import schema
from edgeopt.profiles.schema import AUTO, SCHEMA, TABLES, Data, Match, TargetProfile

Tables = dict[str, Any]


class _WithData(msgspec.Struct):
    data: Data


SHIPPED_HINT = "The profiles that come with edgeopt show every key, each with a comment."


def check_keys(own: Tables, path: Path) -> None:
    """No table holds a key that there is not, and no runtime option a value that it does not take."""
    _known_keys(own, TargetProfile, path, "")
    for table, kind in TABLES.items():
        _known_keys(_table(own, *table.split(".")), kind, path, table)
    # msgspec does not name the keys of free tables, so these are looked at here.
    for value, simd in _table(own, "needs").items():
        if not isinstance(simd, list):
            raise ProfileError(
                f"{path}: {value} in [needs] must be a list of instruction sets.",
                f'For a single one, write: {value} = ["{simd}"]',
            )
    for backend, names in _table(own, "lowerings").items():
        if not isinstance(names, list):
            raise ProfileError(
                f"{path}: {backend} in [lowerings] must be a list of lowerings.",
                f'For a single one, write: {backend} = ["{names}"]; for none: {backend} = []',
            )
    for backend, options in _table(own, "runtime").items():
        if not isinstance(options, dict):
            raise ProfileError(
                f"{path}: {backend} in [runtime] must be a table of options.", f"Begin it with [runtime.{backend}]"
            )
        for option, values in options.items():
            _check_option(path, backend, option, values)


def converted(tables: Tables, path: Path) -> TargetProfile:
    """The tables as a profile in which every word is known."""
    try:
        profile = msgspec.convert(tables, thread_safe(TargetProfile))
    except msgspec.ValidationError as error:
        raise ProfileError(f"{path}: {_sentence(str(error))}", SHIPPED_HINT) from error
    if profile.schema != SCHEMA:
        message = f"{path}: schema {profile.schema} is not known; this edgeopt reads schema {SCHEMA}."
        raise ProfileError(message, "Install the edgeopt that the profile was written for.")
    _check_words(_words(profile), path)
    if isinstance(profile.graph.passes, str) and profile.graph.passes != "default":
        message = f"{path}: passes in [graph] must be \"default\" or a list, not '{profile.graph.passes}'."
        raise ProfileError(message, 'Write a single pass as a list: passes = ["name"].')
    if profile.data is not None:
        _check_data(profile.data, path)
    return profile


def checked_data(table: Tables, path: Path) -> Data:
    """The table [data] by itself, as files that say how to prepare pictures hold it."""
    _known_keys(table, Data, path, "data")
    try:
        data = msgspec.convert({"data": table}, thread_safe(_WithData)).data
    except msgspec.ValidationError as error:
        raise ProfileError(f"{path}: {_sentence(str(error))}", SHIPPED_HINT) from error
    _check_words(_data_words(data), path)
    _check_data(data, path)
    return data


def _check_words(found: Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]], path: Path) -> None:
    for where, names, known in found:
        for name in names:
            if name not in known:
                hint = nearest(name, known) if known else "This backend has none: remove the line."
                raise ProfileError(f"{path}: {where} does not know '{name}'.", hint)


def _words(profile: TargetProfile) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yields the place of words in a profile, the words, and the known words there."""
    # Not before a profile is checked: they are more than all of this room.
    from edgeopt import backends as registry
    from edgeopt.graph import passes

    backends = (*registry.NAMES, *schema.PLANNED_BACKENDS)
    yield from _match_words(profile.match)
    if not isinstance(profile.graph.passes, str):
        yield "passes in [graph]", profile.graph.passes, passes.NAMES
    yield "layout in [graph]", (profile.graph.layout,), schema.LAYOUTS
    yield "ladder in [precision]", profile.precision.ladder, schema.VARIANTS
    quantization = profile.quantization
    yield "activation_type in [quantization]", (quantization.activation_type,), schema.INTEGER_TYPES
    yield "weight_type in [quantization]", (quantization.weight_type,), schema.INTEGER_TYPES
    yield "calibration in [quantization]", (quantization.calibration,), schema.CALIBRATIONS
    yield "order in [backends]", profile.backends.order, backends
    yield "[lowerings]", tuple(profile.lowerings), backends
    for backend, names in profile.lowerings.items():
        yield f"{backend} in [lowerings]", names, registry.lowering_names(backend)
    yield "[runtime]", tuple(profile.runtime), backends
    for value, simd in profile.needs.items():
        yield f"{value} in [needs]", simd, SIMD_NAMES
    if profile.data is not None:
        yield from _data_words(profile.data)


def _data_words(data: Data) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    yield "colour_order in [data]", (data.colour_order,), schema.COLOUR_ORDERS
    yield "place in [data]", (data.place,), schema.PICTURE_PLACES
    yield "filter in [data]", (data.filter,), schema.PICTURE_FILTERS
    yield "layout in [data]", (data.layout,), schema.PICTURE_LAYOUTS
    yield "dtype in [data]", (data.dtype,), schema.PICTURE_TYPES


def _match_words(match: Match) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    yield "architectures in [match]", match.architectures, schema.ARCHITECTURES
    yield "simd in [match]", match.simd, SIMD_NAMES
    yield "os in [match]", match.os, schema.SYSTEMS
    yield "runtimes in [match]", match.runtimes, tuple(schema.RUNTIME_NEEDS)
    if match.accelerator is not None:
        yield "kind in [match.accelerator]", (match.accelerator.kind,), schema.ACCELERATORS


def _table(tables: Tables, *steps: str) -> Tables:
    """A nested table; empty if it is missing or not a table."""
    content: object = tables
    for step in steps:
        content = content.get(step) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def _known_keys(content: Tables, kind: type[msgspec.Struct], path: Path, table: str) -> None:
    for key in content:
        if key not in kind.__struct_fields__:
            where = f"the table [{table}]" if table else "the top level"
            message = f"{path}: {where} has no key '{key}'."
            raise ProfileError(message, nearest(key, kind.__struct_fields__))


def _check_option(path: Path, backend: str, option: str, values: object) -> None:
    where = f"{path}: {option} in [runtime.{backend}]"
    if not isinstance(values, list) or not values:
        raise ProfileError(
            f"{where} must be a list with at least one value.",
            f"For a single value, write: {option} = [{as_toml(values) if values else 0}]",
        )
    from edgeopt.backends import NAMES, option_kinds

    if backend not in NAMES:  # planned, or unknown: reported elsewhere
        return
    known = option_kinds(backend)
    if option not in known:
        message = f"{path}: the table [runtime.{backend}] has no key '{option}'."
        raise ProfileError(message, nearest(option, tuple(known)))
    allowed = known[option]
    for value in values:
        if isinstance(allowed, tuple):
            if value not in allowed:
                raise ProfileError(f"{where} does not know '{value}'.", nearest(str(value), allowed))
        # `true` is an int to Python, and not to anybody else.
        elif type(value) is not allowed or (isinstance(value, int) and value < 0):
            right = "true or false" if allowed is bool else "whole numbers from 0 on"
            raise ProfileError(f"{where} takes {right}, not {as_toml(value)}.", SHIPPED_HINT)


def _check_data(data: Data, path: Path) -> None:
    channels = 1 if data.colour_order == "gray" else 3
    for key, values in (("mean", data.mean), ("std", data.std)):
        if len(values) not in {0, 1, channels}:
            raise ProfileError(
                f"{path}: {key} in [data] has {len(values)} numbers for {channels} channels.",
                f'Give one number, or one a channel in the order of colour_order = "{data.colour_order}".',
            )
    if data.letter_box and (data.resize or data.crop):
        key = "resize" if data.resize else "crop"
        raise ProfileError(
            f"{path}: [data] has letter_box and {key}, which both set the size.", f"Remove letter_box or {key}."
        )
    # A single number to resize to is the shorter side, so the longer one may still be long enough.
    if (data.resize and min(data.crop, default=0) > min(data.resize)) or _beyond(data):
        raise ProfileError(
            f"{path}: crop in [data] keeps more than resize leaves.", "Make resize as large as crop, or larger."
        )


def _beyond(data: Data) -> bool:
    """The crop is larger than a size that is given in full."""
    crop = data.crop * 2 if len(data.crop) == 1 else data.crop
    return len(data.resize) == 2 and any(cut > side for cut, side in zip(crop, data.resize, strict=False))


def as_toml(value: object) -> str:
    """A value as written in a profile."""
    import json

    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_toml, value))}]"
    # Text and truth are written alike in both; JSON leaves no character in it that TOML would not read.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else f"{value}"


def _sentence(problem: str) -> str:
    """msgspec's "Expected `bool`, got `str` - at `$.quantization.reduce_range`" in the words of the file."""
    what, _, place = problem.partition(" - at ")
    keys = place.strip("`").removeprefix("$").removeprefix(".")
    missing = re.fullmatch(r"Object missing required field `(.+)`", what)
    if missing:
        return f"{'the table [' + keys + ']' if keys else 'the profile'} lacks the key '{missing[1]}'."
    table, _, key = re.sub(r"\[(\.\.\.|\d+)\]", "", keys).rpartition(".")
    where = f"{key} in [{table}]" if table else f"'{key}'"
    expected, _, got = what.removeprefix("Expected ").partition(", got ")
    for word, plain in _PLAIN_WORDS:
        expected, got = (re.sub(rf"`{word}`", plain, text) for text in (expected, got))
    return f"{where} must be {expected}{', not ' + got if got else ''}."


_PLAIN_WORDS = (
    (r"bool", "true or false"),
    (r"str", "text"),
    (r"int", "a whole number"),
    (r"float", "a number"),
    (r"array", "a list"),
    (r"object", "a table"),
    (r"object \| null", "a table"),
    (r"str \| array", "text or a list"),
    (r"str \| null", "text"),
    (r"bool \| int \| float \| str", "a single value"),
)


FALLBACK = "generic-cpu"
"""Target that fits every device; it replaces `auto` if no device is given."""
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A profile with what it extends filled in."""

    profile: TargetProfile
    files: tuple[Path, ...]
    """The file itself, then what it extends, up to the one that extends nothing."""
    tables: Tables
    """Merged tables of the files; keys that none of them has take their default in `profile`."""
    origins: dict[Key, Path]
    """File that gave each value, by its key: `("quantization", "reduce_range")`."""
    automatic: bool
    """Whether the profile extends `auto`, the target that fits the device, itself or through another profile."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.stem for file in self.files)


def load_profile(path: Path, auto: str = FALLBACK) -> TargetProfile:
    """The profile in this file, with the one it extends filled in; raises a ProfileError with the place."""
    return resolve(path, auto).profile


def resolve(path: Path, auto: str = FALLBACK) -> Resolved:
    """The same with where each value comes from; `auto` is the shipped target that `extends = "auto"` means."""
    return _resolve(path, auto, ())


def shipped_profiles() -> tuple[TargetProfile, ...]:
    """The targets that come with edgeopt, sorted by name."""
    found = [resolved.profile for resolved in _shipped() if not resolved.automatic]
    if not found:
        raise ProfileError(
            f"The folder of target profiles is empty: {profiles_folder()}.", "Install edgeopt again."
        )
    return tuple(found)


def shipped_uses() -> tuple[TargetProfile, ...]:
    """The profiles for a use that come with edgeopt: each extends whatever target fits; sorted by name."""
    return tuple(resolved.profile for resolved in _shipped() if resolved.automatic)


def shipped_path(name: str) -> Path | None:
    """The file of a profile that comes with edgeopt."""
    return next((file for file in _files() if file.stem == name), None)


def profiles_folder() -> Path:
    """`profiles/` of a checkout, else what the wheel brought (an editable install keeps a stale copy)."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parent / "profiles", package / "_profiles"):
        if (folder / f"{FALLBACK}.toml").is_file():
            return folder
    raise ProfileError("The target profiles that come with edgeopt are missing.", "Install edgeopt again.")


def _shipped() -> tuple[Resolved, ...]:
    stamps = [(file, file.stat()) for file in _files()]
    return _resolved(tuple((file, stamp.st_mtime_ns, stamp.st_size) for file, stamp in stamps))


@lru_cache(maxsize=1)
def _resolved(stamps: tuple[tuple[Path, int, int], ...]) -> tuple[Resolved, ...]:
    """Returns the resolved files, cached until one of them changes."""
    return tuple(resolve(file) for file, _, _ in stamps)


def _files() -> list[Path]:
    return sorted(profiles_folder().glob("*.toml"))


def _resolve(path: Path, auto: str, below: tuple[Path, ...]) -> Resolved:
    own = _read(path)
    check_keys(own, path)
    chain = (*below, path.resolve())
    parent = own.get("extends")
    if not isinstance(parent, str):
        return Resolved(converted(own, path), (path,), own, _keys(own, path), automatic=False)
    base = _parent_path(path, auto if parent == AUTO else parent, shipped_only=parent == AUTO)
    if base.resolve() in chain:
        names = " -> ".join(step.stem for step in (*chain, base))
        raise ProfileError(f"{path}: the profile extends itself: {names}.", "Remove one 'extends'.")
    inherited = _resolve(base, auto, chain)
    # A name belongs to one profile: an extending one must bring its own.
    tables = _merged({k: v for k, v in inherited.tables.items() if k not in {"name", "title"}}, own)
    return Resolved(
        converted(tables, path),
        (path, *inherited.files),
        tables,
        inherited.origins | _keys(own, path),
        automatic=parent == AUTO or inherited.automatic,
    )


def _read(path: Path) -> Tables:
    try:
        stamp = path.stat()
        return _parsed(path, stamp.st_mtime_ns, stamp.st_size)
    except FileNotFoundError as error:
        name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "NAME"
        new = join_words(["edgeopt", "targets", "new", name, "-o", str(path)])
        raise ProfileError(f"There is no profile at '{path}'.", f"Check the path, or create it: {new}") from error
    except OSError as error:
        raise ProfileError(f"{path}: the profile cannot be read: {error.strerror}.", SHIPPED_HINT) from error
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: the profile is not UTF-8 text.", "Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path}: the profile is not valid TOML: {error}.", "Correct that line.") from error
    except RecursionError as error:
        raise ProfileError(f"{path}: the profile is nested too deeply.", SHIPPED_HINT) from error


@lru_cache(maxsize=64)
def _parsed(path: Path, _changed_ns: int, _size_bytes: int) -> Tables:
    """Every target is read once by itself and once by each that extends it; nobody changes what this gives."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _parent_path(path: Path, name: str, shipped_only: bool) -> Path:
    folders = (profiles_folder(),) if shipped_only else (path.parent, profiles_folder())
    # A name and not a path: "../other" would be read from somewhere else on another machine.
    for folder in folders if name == os.path.basename(name) else ():  # noqa: PTH119 - text, not a file
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    known = {AUTO, *(file.stem for folder in folders for file in folder.glob("*.toml"))}
    raise ProfileError(
        f"{path}: the profile '{name}' that it extends does not exist.",
        nearest(name, tuple(sorted(known - {path.stem}))),
    )


def _merged(base: Tables, own: Tables) -> Tables:
    """Tables are merged key by key; any other value replaces the inherited one."""
    result = dict(base)
    for key, value in own.items():
        inherited = result.get(key)
        both = isinstance(inherited, dict) and isinstance(value, dict)
        result[key] = _merged(inherited, value) if both and inherited is not None else value
    return result


def _keys(tables: Tables, path: Path, above: Key = ()) -> dict[Key, Path]:
    found: dict[Key, Path] = {}
    for key, value in tables.items():
        place = (*above, key)
        found |= _keys(value, path, place) if isinstance(value, dict) else {place: path}
    return found
