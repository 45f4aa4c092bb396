"""Registry of the installed plug-ins, found by their entry points, and the only importer of their code."""

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from importlib.util import find_spec
from pathlib import Path

import msgspec

from edgeopt.errors import ModelError, error_text
from edgeopt.plugins.manifest import (
    BROKEN,
    GROUPS,
    MISSING,
    READY,
    Kind,
    Manifest,
    ManifestError,
    Offer,
    OfferedBackend,
    OfferedImporter,
    OfferedRecipe,
    Plugin,
    check_manifest,
    read_manifest,
)


def installed_plugins() -> tuple[Plugin, ...]:
    """Returns all plug-ins by name, also those that cannot be used; imports none of their code."""
    return _find(tuple(sys.path))


def offered(kind: Kind) -> tuple[Offer, ...]:
    """Returns what the plug-ins offer of one kind."""
    return tuple(one for plugin in installed_plugins() for one in plugin.offers if one.kind == kind)


def load_offer(offer: Offer) -> object:
    """Imports the plug-in's code; raises ModelError with the reason if that fails.

    For worker processes, and for a session that somebody opens with a backend of the plug-in.
    """
    if offer.problem:
        raise ModelError(f"{offer.problem[:1].upper()}{offer.problem[1:]}.", offer.hint)
    try:
        return EntryPoint(offer.name, offer.place, "edgeopt").load()
    except Exception as error:  # the code of others raises anything
        reason = f"{type(error).__name__}: {error_text(error)}"
        raise ModelError(f"The plug-in {offer.plugin} cannot be loaded: {reason}", "Ask its author.") from error


def script_of(offer: Offer) -> Path | None:
    """Returns the file of the module that an importer's entry point names, found without importing its package."""
    package, *inner = offer.place.split(".")
    folder = _folder_of(package)
    return None if folder is None else folder.joinpath(*inner).with_suffix(".py")


@cache
def _find(_path: tuple[str, ...]) -> tuple[Plugin, ...]:
    """Finds the plug-ins once for each search path, which tests and programs change."""
    found: dict[str, Plugin] = {}
    for distribution in distributions():
        plugin = _plugin_of(distribution)
        if plugin is not None:
            found.setdefault(plugin.name, plugin)  # the first on the path is the one that Python imports
    return tuple(found[name] for name in sorted(found))


def _plugin_of(distribution: Distribution) -> Plugin | None:
    """Returns the plug-in in a package; None if the package names no group of edgeopt."""
    try:
        if "[edgeopt." not in (distribution.read_text("entry_points.txt") or ""):
            return None
        entries = [entry for entry in distribution.entry_points if entry.group in GROUPS]
    except (TypeError, ValueError) as error:  # a line without "=", or bytes that are no text
        name, version = _called(distribution)
        problem = f"its entry_points.txt cannot be read: {error_text(error)}"
        return Plugin(name, version, BROKEN, problem, "Install it again.", ())
    return _plugin(*_called(distribution), entries) if entries else None


def _called(distribution: Distribution) -> tuple[str, str]:
    """Returns the name and version of a package, whose metadata may be damaged."""
    facts = distribution.metadata
    # An index raises KeyError for a missing field once the backport importlib_metadata is imported.
    name, version = (str((facts.get_all(each) or [""])[0]) for each in ("Name", "Version"))
    return name or "package without a name", version


def _plugin(name: str, version: str, entries: list[EntryPoint]) -> Plugin:
    folder, manifest = None, None
    try:
        folder = _package_of(entries)
        manifest = read_manifest(folder)
        check_manifest(manifest, name, version, {(GROUPS[e.group], e.name): e.value for e in entries})
    except ManifestError as error:
        if manifest is not None and error.state == MISSING:  # the manifest itself is valid
            offers = tuple(_with_problem(one, error) for one in _offers(manifest, entries))
        else:
            offers = tuple(_unusable(name, version, one, error) for one in entries)
        return Plugin(name, version, error.state, error.problem, error.hint, offers, folder)
    return Plugin(name, version, READY, "", "", tuple(_offers(manifest, entries)), folder)


def _package_of(entries: Iterable[EntryPoint]) -> Path:
    packages = sorted({_module_of(entry).partition(".")[0] for entry in entries})
    if len(packages) > 1:
        raise ManifestError(BROKEN, f"its entry points are in several packages: {', '.join(packages)}")
    folder = _folder_of(packages[0])
    if folder is None:
        raise ManifestError(BROKEN, f"its package {packages[0]} is not there", "Install it again.")
    return folder


def _module_of(entry: EntryPoint) -> str:
    try:
        return entry.module
    except (AttributeError, ValueError):  # importlib.metadata raises these for a value that it cannot parse
        reason = f"its entry point {entry.name} is '{entry.value}', which is not package.module:NAME"
        raise ManifestError(BROKEN, reason, "Ask its author.") from None


def _folder_of(package: str) -> Path | None:
    """Returns the folder of a top-level package, which Python finds without importing it."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _unusable(name: str, version: str, entry: EntryPoint, error: ManifestError) -> Offer:
    """Returns an offer with all that is known without a valid manifest."""
    kind = GROUPS[entry.group]
    return _with_problem(Offer(kind, f"{name}.{entry.name}", entry.name, entry.value, name, version), error)


def _with_problem(offer: Offer, error: ManifestError) -> Offer:
    problem = f"the plug-in {offer.plugin} cannot be used: {error.problem}"
    return msgspec.structs.replace(offer, problem=problem, hint=error.hint)


def _offers(manifest: Manifest, entries: list[EntryPoint]) -> Iterator[Offer]:
    places = {(GROUPS[entry.group], entry.name): entry.value for entry in entries}
    for (kind, short), one in manifest.tables().items():
        reads = one.formats if isinstance(one, OfferedBackend) else ()
        yield Offer(
            kind=kind,
            name=f"{manifest.name}.{short}",
            title=one.title,
            place=places[kind, short],
            plugin=manifest.name,
            version=manifest.version,
            file=one.file if isinstance(one, OfferedRecipe) else "model.onnx" if kind == "pass" else "",
            needs_data=isinstance(one, OfferedRecipe) and one.needs_data,
            suffixes=one.suffixes if isinstance(one, OfferedImporter) else reads,
        )
