"""Target profiles: TOML files that say how to optimize for one class of devices; strict, and extendable."""

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from edgeopt.errors import ProfileError
from edgeopt.hw.simd import NAMES as SIMD_NAMES

SCHEMA = 1
ARCHITECTURES = ("x86_64", "i686", "aarch64", "armv7l", "riscv64", "ppc64le", "s390x")
VARIANTS = (
    "source",
    "cleaned",
    "transformer-fused",
    "nncf-w8",
    "ort-dynamic-int8",
    "nncf-int8",
    "ort-static-int8",
)
# Names of `search/recipes.py` and `backends/`, repeated as importing those is slow; a test compares them.
BACKENDS = ("onnxruntime-cpu", "openvino-cpu")
INTEGER_TYPES = ("uint8", "int8")

Value = str | bool | int | float
Values = Annotated[tuple[Value, ...], msgspec.Meta(min_length=1)]
Names = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
Tables = dict[str, Any]


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which devices a target fits; an empty list asks for nothing."""

    architectures: tuple[str, ...]
    simd: tuple[str, ...]
    """All of them are needed."""
    rank: int
    """Of the targets that fit a device, the one with the highest rank is chosen."""


class Graph(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    passes: str | Names
    """`default`, or the passes by name."""


class Precision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ladder: Names
    """The variants to try, in this order."""


class Quantization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    activation_type: str
    weight_type: str
    reduce_range: bool
    per_channel: bool


class BackendOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    order: Names


class Search(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    time_limit_s: Annotated[float, msgspec.Meta(gt=0)]
    max_candidates: Annotated[int, msgspec.Meta(ge=1)]


class TargetProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    title: str
    match: Match
    graph: Graph
    precision: Precision
    quantization: Quantization
    backends: BackendOrder
    runtime: dict[str, dict[str, Values]]
    """Backend, option, values to try; a `threads` of 0 means all usable cores."""
    search: Search
    needs: dict[str, tuple[str, ...]] = {}
    """Runtime values that are only tried on a CPU that has all of these: `{"bf16": ("avx512-bf16",)}`."""
    extends: str | None = None
    schema: int = SCHEMA


def load_profile(path: Path) -> TargetProfile:
    """The profile in this file, with what it extends filled in; else a ProfileError that names the place."""
    profile, _ = _load(path, ())
    return profile


def shipped_profiles() -> tuple[TargetProfile, ...]:
    """The profiles that come with edgeopt, sorted by name."""
    found = sorted(map(load_profile, profiles_folder().glob("*.toml")), key=lambda profile: profile.name)
    if not found:
        raise ProfileError(
            f"The folder of target profiles is empty: {profiles_folder()}.", "Install edgeopt again."
        )
    return tuple(found)


def profiles_folder() -> Path:
    """`profiles/` of a checkout, else what the wheel brought (an editable install keeps a stale copy)."""
    package = Path(__file__).resolve().parent
    for folder in (package.parent / "profiles", package / "_profiles"):
        if (folder / "generic-cpu.toml").is_file():
            return folder
    raise ProfileError("The target profiles that come with edgeopt are missing.", "Install edgeopt again.")


def _load(path: Path, below: tuple[Path, ...]) -> tuple[TargetProfile, Tables]:
    own = _read(path)
    _check_keys(own, path)
    chain = (*below, path.resolve())
    parent = own.get("extends")
    if isinstance(parent, str):
        base = _parent_path(path, parent)
        if base.resolve() in chain:
            names = " -> ".join(step.stem for step in (*chain, base))
            raise ProfileError(f"{path}: the profile extends itself: {names}.", "Remove one 'extends'.")
        _, inherited = _load(base, chain)
        # A name belongs to one profile: an extending one must bring its own.
        own = _merged({k: v for k, v in inherited.items() if k not in {"name", "title"}}, own)
    return _converted(own, path), own


def _read(path: Path) -> Tables:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: the profile cannot be read: {error.strerror}.", _SHIPPED_HINT) from error
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: the profile is not UTF-8 text.", "Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path}: the profile is not valid TOML: {error}.", "Mend that line.") from error


def _parent_path(path: Path, name: str) -> Path:
    beside = path.parent / f"{name}.toml"
    shipped = profiles_folder() / f"{name}.toml"
    for candidate in (beside, shipped):
        if candidate.is_file():
            return candidate
    known = {file.stem for folder in (path.parent, profiles_folder()) for file in folder.glob("*.toml")}
    raise ProfileError(
        f"{path}: the profile '{name}' that it extends is not there.",
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


def _check_keys(own: Tables, path: Path) -> None:
    _known_keys(own, TargetProfile, path, "")
    for table, kind in _TABLES.items():
        content = own.get(table)
        if isinstance(content, dict):
            _known_keys(content, kind, path, table)
    runtime = own.get("runtime")
    for backend, options in runtime.items() if isinstance(runtime, dict) else ():
        for option, values in options.items() if isinstance(options, dict) else ():
            # msgspec does not name the keys of a free table, so this one is looked at here.
            if not isinstance(values, list) or not values:
                raise ProfileError(
                    f"{path}: {option} in [runtime.{backend}] must be a list with at least one value.",
                    f"For a single value, write: {option} = [{values or 0}]",
                )


def _known_keys(content: Tables, kind: type[msgspec.Struct], path: Path, table: str) -> None:
    for key in content:
        if key not in kind.__struct_fields__:
            where = f"the table [{table}]" if table else "the top level"
            message = f"{path}: {where} has no key '{key}'."
            raise ProfileError(message, nearest(key, kind.__struct_fields__))


def _converted(tables: Tables, path: Path) -> TargetProfile:
    try:
        profile = msgspec.convert(tables, TargetProfile)
    except msgspec.ValidationError as error:
        raise ProfileError(f"{path}: {_sentence(str(error))}", _SHIPPED_HINT) from error
    if profile.schema != SCHEMA:
        message = f"{path}: schema {profile.schema} is not known; this edgeopt reads schema {SCHEMA}."
        raise ProfileError(message, "Install the edgeopt that the profile was written for.")
    for where, names, known in (
        ("architectures in [match]", profile.match.architectures, ARCHITECTURES),
        ("simd in [match]", profile.match.simd, SIMD_NAMES),
        ("ladder in [precision]", profile.precision.ladder, VARIANTS),
        ("activation_type in [quantization]", (profile.quantization.activation_type,), INTEGER_TYPES),
        ("weight_type in [quantization]", (profile.quantization.weight_type,), INTEGER_TYPES),
        ("order in [backends]", profile.backends.order, BACKENDS),
        ("[runtime]", tuple(profile.runtime), BACKENDS),
        *((f"{value} in [needs]", simd, SIMD_NAMES) for value, simd in profile.needs.items()),
    ):
        for name in names:
            if name not in known:
                raise ProfileError(f"{path}: {where} does not know '{name}'.", nearest(name, known))
    if isinstance(profile.graph.passes, str) and profile.graph.passes != "default":
        message = f"{path}: passes in [graph] must be \"default\" or a list, not '{profile.graph.passes}'."
        raise ProfileError(message, 'Write a single pass as a list: passes = ["name"].')
    return profile


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


def nearest(word: str, known: tuple[str, ...]) -> str:
    """A hint that names the nearest right word, or all of them."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1, 0.5)
    return f"Did you mean '{near[0]}'?" if near else f"Known are: {', '.join(known)}."


_SHIPPED_HINT = "The profiles that come with edgeopt show every key, each with a comment."
_TABLES: dict[str, type[msgspec.Struct]] = {
    "match": Match,
    "graph": Graph,
    "precision": Precision,
    "quantization": Quantization,
    "backends": BackendOrder,
    "search": Search,
}
_PLAIN_WORDS = (
    (r"bool", "true or false"),
    (r"str", "text"),
    (r"int", "a whole number"),
    (r"float", "a number"),
    (r"array", "a list"),
    (r"object", "a table"),
    (r"str \| array", "text or a list"),
    (r"bool \| int \| float \| str", "a single value"),
)
