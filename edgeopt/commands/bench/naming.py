"""Names of sides: `WHAT[@BACKEND[,option=value...]]`, or only the differences from the first side."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from edgeopt.backends import backend_named, known_backends
from edgeopt.backends.intended import Intended, intended, is_usable
from edgeopt.backends.options import written
from edgeopt.bundle.read import is_bundle
from edgeopt.errors import UsageError
from edgeopt.importing.sources import is_source
from edgeopt.nearest import nearest

Kind = Literal["model", "bundle", "command", "url", "source"]
OptionValue = str | int | float | bool | dict[str, list[int]]

_HOW = "A side is FILE[@BACKEND[,option=value...]]: model.onnx@onnxruntime-cpu,threads=1"
_OPTION = re.compile(r"[a-z][a-z0-9_]*=")
_OUTSIDE_BRACKETS = re.compile(r",(?![^{\[]*[}\]])")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LONGEST_NAME = 40
COMPILE = "compile"


@dataclass(frozen=True, slots=True)
class NamedSide:
    """Side as the user named it; only the form of the name is checked."""

    kind: Kind
    what: str
    """A path, a program's command line, an address, or what `edgeopt import` takes."""
    backend: str | None = None
    options: dict[str, OptionValue] = field(default_factory=dict)
    made_for: Intended | None = None
    """Intended backend, options and proofs, from the file's metadata."""

    @property
    def is_as_made(self) -> bool:
        made = self.made_for
        return made is not None and (self.backend, self.options) == (made.backend, made.options)

    @property
    def path(self) -> Path:
        return Path(self.what)


def first_side(text: str, backend: str | None = None, options: dict[str, OptionValue] | None = None) -> NamedSide:
    """Returns the side that `SUBJECT`, `--backend` and `--option` name together."""
    named = _whole(text)
    if backend is not None:
        backend_named(backend)
        if named.backend not in {None, backend}:
            raise UsageError(f"'{text}' names another backend than --backend {backend}.", "Give one of them.")
        named = replace(named, backend=backend)
    named = replace(named, options={**named.options, **(options or {})})
    return _as_made(_allowed(named))


def other_side(text: str, first: NamedSide) -> NamedSide:
    """Parses `--against`: a side of its own, or the first side with another backend or other options."""
    if is_address(text) or Path(text).exists() or _source(text) is not None:
        return _as_made(_allowed(_whole(text)))
    backend, *more = _OUTSIDE_BRACKETS.split(text)
    if _OPTION.match(text):
        # Options of one side say nothing about another, but the backend that they belong to stays.
        return _allowed(replace(first, options=read_options(_OUTSIDE_BRACKETS.split(text))))
    if backend in {b.name for b in known_backends()}:
        return _allowed(replace(first, backend=backend, options=read_options(more)))
    if "@" not in text and not Path(text).suffix:
        hint = nearest(backend, [b.name for b in known_backends()], "List them: edgeopt backends")
        raise UsageError(f"There is no model, bundle or backend '{text}'.", hint)
    return _as_made(_allowed(_whole(text)))


def program(command: str) -> NamedSide:
    if not command.strip():
        raise UsageError("--baseline-command is empty.", 'Give a program: --baseline-command "python mine.py"')
    return NamedSide("command", command)


def is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def address(url: str) -> NamedSide:
    """Returns a side for a served model; the address is not contacted yet."""
    if not is_address(url) or not urlsplit(url).hostname:
        raise UsageError(
            f"'{url}' is not the address of a model.",
            "Give an address such as http://127.0.0.1:8080/v2/models/NAME",
        )
    return NamedSide("url", url)


def read_options(texts: list[str]) -> dict[str, OptionValue]:
    """Reads `name=value` options, with types guessed; the backend checks them against its own types."""
    found: dict[str, OptionValue] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise UsageError(f"'{text}' is not an option.", "Write name=value, such as threads=1.")
        if name in found:
            raise UsageError(f"The option '{name}' is given twice.", "Give it once.")
        found[name] = _value(value)
    return found


def _value(text: str) -> OptionValue:
    if text in _WORDS:
        return _WORDS[text]
    try:
        value: OptionValue = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, int | float | dict) else text


def _whole(text: str) -> NamedSide:
    if is_address(text):
        return address(text)
    if (source := _source(text)) is not None:
        return source
    what, sign, rest = text.rpartition("@")
    if not sign or Path(text).exists():
        return NamedSide(_kind(text), text)
    backend, *options = _OUTSIDE_BRACKETS.split(rest)
    if not what or not backend:
        raise UsageError(f"'{text}' is not a side.", _HOW)
    backend_named(backend)
    return NamedSide(_kind(what), what, backend, read_options(options))


def _source(text: str) -> NamedSide | None:
    """Returns a model of another framework, with `@compile` or `@threads=N`; None for any other text."""
    what, sign, rest = text.rpartition("@")
    if not sign or Path(text).exists():
        what, rest = text, ""
    if not is_source(what) or is_bundle(Path(what)):
        return None
    parts = [f"{COMPILE}=on" if part == COMPILE else part for part in rest.split(",") if part]
    return NamedSide("source", what, options=read_options(parts))


def _as_made(named: NamedSide) -> NamedSide:
    """Applies the backend and options that a model file names as intended, unless the user gave others."""
    if named.kind != "model":
        return named
    found = intended(named.path)
    if found is None or named.backend is not None or named.options or not is_usable(found.backend):
        return replace(named, made_for=found)
    return replace(named, backend=found.backend, options=dict(found.options), made_for=found)


def _kind(what: str) -> Kind:
    return "bundle" if is_bundle(Path(what)) or Path(what).is_dir() else "model"


def _allowed(named: NamedSide) -> NamedSide:
    """Bundles and addresses bring their own backend and options."""
    if named.backend is None and not named.options:
        return named
    if named.kind == "bundle":
        raise UsageError(
            f"The bundle '{named.path.name}' runs only with the backend and options it was proved with.",
            "To try others, name the model file inside it.",
        )
    if named.kind == "source":
        threads = named.options.get("threads", 1)
        if named.backend is None and named.options.keys() <= {COMPILE, "threads"} and isinstance(threads, int):
            return named
        raise UsageError(
            f"'{named.what}' runs in its own framework, without backends and their options.",
            f"It takes {named.path.name}@{COMPILE} and {named.path.name}@threads=N.",
        )
    if named.kind in {"url", "command"}:
        raise UsageError(f"'{named.what}' chooses its own backend and options.", "Set them where you start it.")
    return named


def side_names(sides: list[NamedSide]) -> list[str]:
    """Returns a short and distinct name for each side, the same for the same sides in every run."""
    bases = _bases(sides)
    names: list[str] = []
    for base, side in zip(bases, sides, strict=True):
        options = "" if side.is_as_made else written(side.options)
        name = " · ".join(part for part in (base, side.backend or "", options) if part)
        alike = sum(taken == name or taken.startswith(f"{name} (") for taken in names)
        names.append(f"{name} ({alike + 1})" if alike else name)
    return names


def _bases(sides: list[NamedSide]) -> list[str]:
    """Returns each side's name without backend and options, with as much of the path as makes it unique."""
    shorts = [_short(side) for side in sides]
    for depth in range(2, 6):
        whats: dict[str, set[str]] = {}
        for short, side in zip(shorts, sides, strict=True):
            whats.setdefault(short, set()).add(side.what)
        shorts = [
            "/".join(side.path.absolute().parts[-depth:])
            if len(whats[short]) > 1 and side.kind in {"model", "bundle", "source"}
            else short
            for short, side in zip(shorts, sides, strict=True)
        ]
    return shorts


def _short(side: NamedSide) -> str:
    if side.kind == "command":
        return side.what if len(side.what) <= _LONGEST_NAME else side.what[: _LONGEST_NAME - 3] + "..."
    if side.kind == "url":
        parts = urlsplit(side.what)
        model = parts.path.rstrip("/").rpartition("/models/")[2].split("/")[0]
        return f"{model} at {parts.netloc}" if model else parts.netloc
    return side.path.name or side.what
