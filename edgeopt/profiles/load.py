"""Reads profiles: the file, what it extends, and where each of its values comes from."""

import os
import re
import shlex
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from edgeopt.errors import ProfileError
from edgeopt.nearest import nearest
from edgeopt.profiles.checks import SHIPPED_HINT, Tables, check_keys, converted
from edgeopt.profiles.schema import AUTO, TargetProfile

FALLBACK = "generic-cpu"
"""It fits every device; stands for `auto` where no device is asked."""
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A profile with what it extends filled in."""

    profile: TargetProfile
    files: tuple[Path, ...]
    """The file itself, then what it extends, up to the one that extends nothing."""
    tables: Tables
    """What the files say, merged; what none of them says has its default in `profile`."""
    origins: dict[Key, Path]
    """Which of the files gave a value: `("quantization", "reduce_range")`."""
    automatic: bool
    """It extends whatever target fits the device, itself or through another."""

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


def _shipped() -> list[Resolved]:
    return [resolve(file) for file in _files()]


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
        new = shlex.join(["edgeopt", "targets", "new", name, "-o", str(path)])
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
