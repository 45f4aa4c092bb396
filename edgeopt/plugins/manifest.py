"""Manifest of a plug-in (its name, its offers, its requirements), and the checks of it."""

import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt.decoding import thread_safe

INTERFACE = 1
"""Version of the plug-in interface; it grows when a plug-in must be changed to go on working."""
MANIFEST = "edgeopt-plugin.toml"
"""Name of the manifest file, which is in the package that the entry points name."""
State = Literal["ready", "wrong version", "missing requirement", "broken manifest"]
READY: State = "ready"
WRONG_VERSION: State = "wrong version"
MISSING: State = "missing requirement"
BROKEN: State = "broken manifest"
Kind = Literal["pass", "recipe", "backend", "importer"]
GROUPS: dict[str, Kind] = {
    "edgeopt.passes": "pass",
    "edgeopt.recipes": "recipe",
    "edgeopt.backends": "backend",
    "edgeopt.importers": "importer",
}
"""Groups of entry points, and the kind of offer in each."""

_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(\s*>=\s*(?P<least>\d+(\.\d+)*))?")
_DOCS = "The page 'Plug-ins' of the documentation describes the manifest."
Name = Annotated[str, msgspec.Meta(pattern=f"^{_NAME}$")]
Suffix = Annotated[str, msgspec.Meta(pattern=r"^\.[a-z0-9_.]+$")]
Suffixes = Annotated[tuple[Suffix, ...], msgspec.Meta(min_length=1)]
Title = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    title: Title


class OfferedPass(_Table, frozen=True):
    """Rewrite of an ONNX model."""


class OfferedRecipe(_Table, frozen=True):
    file: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]+(\.[a-z0-9_]+)+$")] = "model.onnx"
    """File that the recipe writes; its suffix decides which backends read it."""
    needs_data: bool = False
    """Whether the recipe calibrates, so that it is tried only with the user's samples."""


class OfferedBackend(_Table, frozen=True):
    formats: Suffixes = (".onnx",)
    """Suffixes of the models that the backend loads."""


class OfferedImporter(_Table, frozen=True):
    suffixes: Suffixes


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    interface: int
    name: str
    version: str
    needs: tuple[str, ...] = ()
    """Distributions, with the lowest version if that matters: `onnx-ir>=0.1.12`."""
    passes: tuple[OfferedPass, ...] = ()
    recipes: tuple[OfferedRecipe, ...] = ()
    backends: tuple[OfferedBackend, ...] = ()
    importers: tuple[OfferedImporter, ...] = ()

    def tables(self) -> dict[tuple[Kind, str], _Table]:
        kinds: tuple[tuple[Kind, tuple[_Table, ...]], ...] = (
            ("pass", self.passes),
            ("recipe", self.recipes),
            ("backend", self.backends),
            ("importer", self.importers),
        )
        return {(kind, one.name): one for kind, tables in kinds for one in tables}

    def count(self) -> int:
        return len(self.passes) + len(self.recipes) + len(self.backends) + len(self.importers)


class Offer(msgspec.Struct, frozen=True):
    """Backend, importer, pass or recipe that a plug-in offers."""

    kind: Kind
    name: str
    """Name with the plug-in before it, so that it equals no name of edgeopt's own: `edgeopt-example.unscale`."""
    title: str
    place: str
    """Location of the code, as in the entry point: `package.module:NAME`."""
    plugin: str
    version: str
    problem: str = ""
    """Reason why the offer cannot be used, as a sentence without its full stop; empty if the plug-in is ready."""
    hint: str = ""
    file: str = ""
    """File that a recipe writes."""
    needs_data: bool = False
    suffixes: tuple[str, ...] = ()
    """File suffixes that a backend or importer reads."""

    @property
    def source(self) -> str:
        return f"{self.plugin} {self.version}"


class Plugin(msgspec.Struct, frozen=True):
    """Installed plug-in, as far as its manifest says, and whether it can be used."""

    name: str
    version: str
    state: State
    problem: str
    """Reason why the plug-in is not ready, as a sentence without its full stop."""
    hint: str
    """Next step for the user if the plug-in is not ready."""
    offers: tuple[Offer, ...]
    folder: Path | None = None
    """Folder of the plug-in's package."""


class ManifestError(Exception):
    """Error for an unusable plug-in: its state, a sentence without its full stop, and a next step."""

    def __init__(self, state: State, problem: str, hint: str = _DOCS) -> None:
        super().__init__(problem)
        self.state, self.problem, self.hint = state, problem, hint


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest in a package's folder; checks the interface first, as a newer one may have other keys."""
    path = folder / MANIFEST
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError(BROKEN, f"its package {folder.name} has no {MANIFEST}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ManifestError(BROKEN, f"its {MANIFEST} cannot be read: {error}") from None
    interface = tables.get("interface")
    if isinstance(interface, int) and interface != INTERFACE:
        older = interface < INTERFACE
        raise ManifestError(
            WRONG_VERSION,
            f"it is for version {interface} of the plug-in interface, and this edgeopt has version {INTERFACE}",
            "Install a newer version of the plug-in." if older else "Update edgeopt, or install an older plug-in.",
        )
    try:
        return msgspec.convert(tables, thread_safe(Manifest))
    except msgspec.ValidationError as error:
        raise ManifestError(BROKEN, f"its {MANIFEST} is wrong: {error}") from None


def check_manifest(manifest: Manifest, name: str, installed: str, entries: Mapping[tuple[Kind, str], str]) -> None:
    """Raises ManifestError if the manifest does not agree with the package, or a requirement is missing.

    `entries`: the entry points, by kind and name.
    """
    if (manifest.name, manifest.version) != (name, installed):
        reason = f"its {MANIFEST} is of {manifest.name} {manifest.version}, and the package is {name} {installed}"
        raise ManifestError(BROKEN, reason, "Write the same name and version in both, and install it again.")
    tables = manifest.tables()
    if len(tables) != manifest.count() or len({short for _, short in tables}) != len(tables):
        raise ManifestError(BROKEN, f"its {MANIFEST} offers two things of one name")
    for (kind, short), known, where in (
        *((key, entries, "entry points do") for key in tables),
        *((key, tables, f"{MANIFEST} does") for key in entries),
    ):
        if (kind, short) not in known:
            raise ManifestError(BROKEN, f"its {where} not list the {kind} '{short}'")
    for need in manifest.needs:
        _check_need(need)


def _check_need(need: str) -> None:
    parts = _REQUIREMENT.fullmatch(need)
    if parts is None:
        raise ManifestError(BROKEN, f"its {MANIFEST} has the requirement '{need}', which is not NAME or NAME>=1.2")
    install = f"Install it: pip install '{need}'"
    try:
        found = version(parts["name"])
    except PackageNotFoundError:
        raise ManifestError(MISSING, f"it needs {need}, which is not installed", install) from None
    if parts["least"] and _numbers(found) < _numbers(parts["least"]):
        raise ManifestError(MISSING, f"it needs {need}, and {found} is installed", install)


def _numbers(text: str) -> tuple[int, ...]:
    """Returns the release of a version without trailing zeros: `1.2.0rc1` is (1, 2)."""
    release = re.match(r"\d+(\.\d+)*", text)
    numbers = [int(part) for part in release[0].split(".")] if release else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
