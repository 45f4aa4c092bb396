"""What a client may run: three commands, with options that name no program, and the files that came with them."""

import posixpath
import re
from collections.abc import Mapping, Sequence

import msgspec

from edgeopt.commands.bench.request import Request as BenchRequest
from edgeopt.commands.optimize import OptimizeSourceRequest
from edgeopt.commands.probe import ProbeRequest
from edgeopt.options import Option, options_of
from edgeopt.remote.far import RefusedError

REQUESTS: Mapping[str, type[msgspec.Struct]] = {
    "probe": ProbeRequest,
    "bench": BenchRequest,
    "optimize": OptimizeSourceRequest,
}
# All else is refused, so that a new option is allowed on purpose only.
OPTIONS: Mapping[str, frozenset[str]] = {
    "probe": frozenset({
        "explain", "record", "deep", "again", "identify",
    }),
    "bench": frozenset({
        "subject", "against", "backend", "options", "threads", "data", "rounds", "time_limit_s",
        "load_timeout_s", "strict", "duty", "rate_per_s", "minutes", "concurrency", "processes", "sweep",
        "runs", "suite", "counters", "save", "max_slowdown", "min_speedup", "undecided",
    }),
    "optimize": frozenset({
        "model", "out", "data", "floor", "metric", "max_drop", "accept_unproven_drop", "labels", "objective",
        "shape", "max_memory_mib", "max_size_mib", "max_latency_ms", "baseline", "target_speedup", "time_limit_s",
        "target", "profile", "preset", "pre", "post", "single_file", "pick", "fresh", "plugins",
    }),
}  # fmt: skip
_METRIC = re.compile(r"[a-z0-9-]+")
_NOT_A_NAME = re.compile(r"[/\\\x00]|^[~.-]|\.\.")
_SIGNS = "@"
_HINT = "Run it on the device, or over SSH: --on ssh://[USER@]HOST"
_CHECK_FILE = "Check that the file exists here: those that do are sent."


def checked(words: Sequence[str], run: str, places: Sequence[str]) -> list[str]:
    """The arguments of `edgeopt`; raises RefusedError for any that a client may not give.

    `run` is the folder of the run, and `places` are where the files of the command are in it.
    """
    name, *rest = words or ("",)
    if name not in REQUESTS:
        raise _refused(f"An agent runs no 'edgeopt {name[:40]}' for others.")
    if not rest or rest[-1] != "--json":
        raise _refused("An agent runs commands with --json only.")
    options = {flag: each for each in options_of(REQUESTS[name]) for flag in _flags(each)}
    bare = next((each for each in options_of(REQUESTS[name]) if not each.flags), None)
    files = {"/".join([run, *place.split("/")[:3]]) for place in places}
    waiting = list(rest[:-1])
    while waiting:
        word = waiting.pop(0)
        if word.startswith("-"):
            found = options.get(word)
            if found is None or found.name not in OPTIONS[name]:
                raise _refused(f"An agent takes no {word[:40]} from others.")
            if found.kind is bool:
                continue
            if not waiting:
                raise _refused(f"{word} has no value.")
            _check_value(found, waiting.pop(0), files)
        elif bare is None or not _is_file(word, files):
            raise _refused(f"'{word[:80]}' is not a file that came with the command.", _CHECK_FILE)
    return [*words]


def _flags(option: Option) -> list[str]:
    return [part for flag in option.flags for part in flag.split("/")]


def _check_value(option: Option, value: str, files: set[str]) -> None:
    if option.name == "metric" and not _METRIC.fullmatch(value):
        raise _refused("An agent runs no code of others, so it takes no metric of your own.")
    if not _is_file(value, files) and _NOT_A_NAME.search(value):
        raise _refused(f"'{value[:80]}' of {option.flag} is not a file that came with the command.", _CHECK_FILE)


def _is_file(value: str, files: set[str]) -> bool:
    """Whether it is one, or one with the options of a side behind it."""
    path, _, more = value.partition(_SIGNS)
    return path in files and posixpath.normpath(path) == path and not _NOT_A_NAME.search(more)


def _refused(message: str, hint: str = _HINT) -> RefusedError:
    return RefusedError("not-taken", words=message, hint=hint)
