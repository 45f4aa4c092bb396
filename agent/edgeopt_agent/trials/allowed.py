"""Commands that a client may run: three, whose arguments are sent files, known names and numbers."""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.backends import known_backends
from edgeopt.backends.options import kinds
from edgeopt.bundle.deployment import FILE as DEPLOYMENT
from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.manifest import FILE as MANIFEST
from edgeopt.commands.bench.naming import read_options
from edgeopt.commands.bench.request import Request as BenchRequest
from edgeopt.commands.optimize import OptimizeSourceRequest
from edgeopt.commands.probe import ProbeRequest
from edgeopt.errors import UsageError
from edgeopt.options import Option, options_of
from edgeopt.remote.far import RefusedError

REQUESTS: Mapping[str, type[msgspec.Struct]] = {
    "probe": ProbeRequest,
    "bench": BenchRequest,
    "optimize": OptimizeSourceRequest,
}
_HINT = "Run it on the device, or over SSH: --on ssh://[USER@]HOST"
_CHECK_FILE = "Check that the file exists here: those that do are sent."
_IMPORT_FIRST = (
    "It takes ONNX models, OpenVINO models and bundles. Import others on the machine with edgeopt: "
    "edgeopt import SOURCE -o MODEL.onnx"
)
_MODELS = (".onnx", ".xml")
"""The files that a runtime loads as data; all others a framework would open, whose formats can hold programs."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*%?")
_SIZES = re.compile(r"[A-Za-z_][\w.-]*(=[0-9]+([:,x][0-9]+)*)?")
_METRIC = re.compile(r"[a-z0-9-]+")
_CANDIDATE = re.compile(r"\w[\w .,·+()%=-]*")
_AXIS = re.compile(r"[A-Za-z_][\w.-]*")
_NUMBERS = re.compile(r"[0-9]+(,[0-9]+)*")
_OUTSIDE_BRACKETS = re.compile(r",(?![^{\[]*[}\]])")
_SIGN = "@"


@dataclass(frozen=True, slots=True)
class SentFiles:
    """The files that came with the command: each place in the folder of the run, with the paths below it."""

    places: Mapping[str, frozenset[str]]

    def is_file(self, path: str) -> bool:
        return path in self.places and posixpath.normpath(path) == path

    def is_model(self, path: str, suffixes: Sequence[str] = _MODELS) -> bool:
        """Whether it is a model file of a runtime, by its name alone, which no framework takes for its own."""
        plain = _NAME.fullmatch(posixpath.basename(path)) is not None
        return self.is_file(path) and plain and Path(path).suffix in suffixes and not self.places[path]

    def is_bundle(self, path: str) -> bool:
        below = self.places.get(path, frozenset())
        packed = not below and Path(path).suffix == SUFFIX
        return self.is_file(path) and (packed or bool(below & {MANIFEST, DEPLOYMENT}))


Check = Callable[[SentFiles, str], bool]
"""Whether a value is of the kind that an option takes from others."""


def _file(files: SentFiles, value: str) -> bool:
    return files.is_file(value)


def _model(files: SentFiles, value: str) -> bool:
    return files.is_model(value, (".onnx",))


def _deployment(files: SentFiles, value: str) -> bool:
    return files.is_model(value) or files.is_bundle(value)


def _side(files: SentFiles, value: str) -> bool:
    """Whether the value is `FILE[@BACKEND[,option=value...]]`."""
    path = next((each for each in files.places if value == each or value.startswith(each + _SIGN)), "")
    if not _deployment(files, path):
        return False
    return value == path or _how(files, value[len(path) + 1 :], named=True)


def _other_side(files: SentFiles, value: str) -> bool:
    """Whether the value is a side as in `_side`, or only a backend or options."""
    return _side(files, value) or _how(files, value, named=False)


def _how(files: SentFiles, text: str, named: bool) -> bool:
    first, *more = _OUTSIDE_BRACKETS.split(text)
    if not named and "=" in first:
        return all(_option(files, each) for each in (first, *more))
    return _backend(files, first) and all(_option(files, each) for each in more)


def _backend(_files: SentFiles, value: str) -> bool:
    return any(value == each.name for each in known_backends())


def _option(_files: SentFiles, value: str) -> bool:
    """Whether it is a number, yes or no, shapes, or a word that a backend lists: others could name a library."""
    try:
        ((name, found),) = read_options([value]).items()
    except UsageError:
        return False
    if not isinstance(found, str):
        return True
    listed = [kinds(each.options).get(name) for each in known_backends()]
    return any(isinstance(each, tuple) and found in each for each in listed)


def _profile(files: SentFiles, value: str) -> bool:
    return files.is_file(value) or _NAME.fullmatch(value) is not None


def _matches(pattern: re.Pattern[str]) -> Check:
    return lambda _sent, value: pattern.fullmatch(value) is not None


_name, _word, _numbers = _matches(_NAME), _matches(_WORD), _matches(_NUMBERS)
_sizes, _metric, _candidate = _matches(_SIZES), _matches(_METRIC), _matches(_CANDIDATE)


def _sweep(files: SentFiles, value: str) -> bool:
    """Whether the value is an option, batch or axis, with allowed values."""
    name, sign, values = value.partition("=")
    known = _AXIS.fullmatch(name) is not None
    return known and (not sign or all(_option(files, f"{name}={each}") for each in values.split(",")))


def _number(_files: SentFiles, value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _nothing(_files: SentFiles, _value: str) -> bool:
    return False


# All else is refused, so that a new option is allowed on purpose only. What is written goes by its name alone.
OPTIONS: Mapping[str, Mapping[str, Check]] = {
    "probe": {
        **dict.fromkeys(("explain", "deep", "again", "identify"), _nothing),
        "record": _name,
    },
    "bench": {
        **dict.fromkeys(("strict", "counters"), _nothing),
        **dict.fromkeys(("rounds", "time_limit_s", "load_timeout_s", "rate_per_s", "minutes", "runs"), _number),
        **dict.fromkeys(("prompt_tokens", "new_tokens"), _number),
        **dict.fromkeys(("concurrency", "processes"), _numbers),
        **dict.fromkeys(("threads", "duty", "undecided", "max_slowdown", "min_speedup"), _word),
        "subject": _side,
        "against": _other_side,
        "backend": _backend,
        "options": _option,
        "data": _file,
        "sweep": _sweep,
        "save": _name,
    },
    "optimize": {
        **dict.fromkeys(("accept_unproven_drop", "single_file", "fresh", "plugins"), _nothing),
        **dict.fromkeys(("max_memory_mib", "max_size_mib", "max_latency_ms", "target_speedup"), _number),
        **dict.fromkeys(("floor", "max_drop", "objective", "preset", "target"), _word),
        **dict.fromkeys(("labels", "out"), _name),
        "metric": _metric,
        "pick": _candidate,
        **dict.fromkeys(("data", "pre", "post"), _file),
        "model": _model,
        "baseline": _deployment,
        "time_limit_s": _number,
        "shape": _sizes,
        "profile": _profile,
    },
}  # fmt: skip
_OF_FILES = (_file, _model, _deployment, _side, _other_side, _profile)
"""Checks of options that take a file."""


def checked(words: Sequence[str], run: str, places: Sequence[str]) -> list[str]:
    """Returns the arguments of `edgeopt`; raises RefusedError for any that a client may not give.

    `run` is the folder of the run, and `places` are where the files of the command are in it.
    """
    name, *rest = words or ("",)
    if name not in REQUESTS:
        raise _refused(f"An agent runs no 'edgeopt {name[:40]}' for others.")
    if not rest or rest[-1] != "--json":
        raise _refused("An agent runs commands with --json only.")
    options = {flag: each for each in options_of(REQUESTS[name]) for flag in _flags(each)}
    bare = next((each for each in options_of(REQUESTS[name]) if not each.flags), None)
    files = _sent_files(run, places)
    waiting = list(rest[:-1])
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("-"):
            if bare is None:
                raise _refused(f"'{posixpath.basename(word)[:80]}' is no option.")
            _check_value(name, bare, word, files)
            continue
        found = options.get(word)
        if found is None or found.name not in OPTIONS[name]:
            raise _refused(f"An agent takes no {word[:40]} from others.")
        if found.kind is bool:
            continue
        if not waiting:
            raise _refused(f"{word} has no value.")
        _check_value(name, found, waiting.pop(0), files)
    return [*words]


def _flags(option: Option) -> list[str]:
    return [part for flag in option.flags for part in flag.split("/")]


def _sent_files(run: str, places: Sequence[str]) -> SentFiles:
    found: dict[str, set[str]] = {}
    for place in places:
        parts = place.split("/")
        below = found.setdefault("/".join([run, *parts[:3]]), set())
        below |= {"/".join(parts[3:])} - {""}
    # A file that belongs to a model lies beside it, and is no model by itself.
    return SentFiles({path: frozenset(below) for path, below in found.items()})


def _check_value(command: str, option: Option, value: str, files: SentFiles) -> None:
    check = OPTIONS[command][option.name]
    if check(files, value):
        return
    if option.name == "metric":
        raise _refused("An agent runs no code of others, so it takes no metric of your own.")
    path = value.partition(_SIGN)[0]
    # Without the folder, which is one of the device.
    shown = posixpath.basename(value)[:80]
    if check in _OF_FILES and files.is_file(path):
        name = posixpath.basename(path)[:80]
        raise _refused(f"'{name}' is not a model that an agent takes from others.", _IMPORT_FIRST)
    if check in _OF_FILES:
        raise _refused(f"'{shown}' is not a file that came with the command.", _CHECK_FILE)
    raise _refused(f"An agent takes no '{shown}' for {option.flag} from others.")


def _refused(message: str, hint: str = _HINT) -> RefusedError:
    return RefusedError("not-taken", words=message, hint=hint)
