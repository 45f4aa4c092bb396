"""The errors that edgeopt raises on purpose; each message is a sentence for the user, with a next step.

EdgeoptError
├── UsageError            exit 2   wrong arguments
├── InputError            exit 3   a file that was given is not usable
│   ├── ModelError                 the model
│   ├── DataError                  the data
│   ├── ProfileError               a target profile
│   ├── BundleError                a bundle
│   └── DiskFullError              a disk is full
├── ConstraintError       exit 4   a constraint cannot be met
├── MissingError          exit 5   a runtime or a device is missing
│   └── MissingExtraError          an optional dependency is not installed
├── VerificationError     exit 6   a check of the outcome failed
├── TrialError            exit 1   a trial failed
├── WorkerError           exit 1   the worker process of an isolated session failed
├── OverloadError         exit 1   a queue is full
├── DeadlineError         exit 1   a request was not answered in time
└── StoppedError          exit 130 stopped before there was a result

Terminated                exit 143 SIGTERM; a KeyboardInterrupt, which is exit 130
"""

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LONGEST_WORD, LONGEST_TEXT = 500, 4000
"""Limits of texts from elsewhere, in characters: a longer word or text is cut before people see it."""
_OVERLONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")

EXIT_CANCELLED = 130
EXIT_TERMINATED = 143
EXIT_UNREAD = 141
EXIT_BUG = 1

Ending = Literal[
    "", "not-started", "too-often", "exited", "crashed", "killed", "hung", "memory", "nonsense", "closed"
]
"""End of a process that had a request; empty: the process lives, and reports itself why it fails."""


def flag_of(field: str) -> str:
    """Returns the command-line flag of a field, without its unit: `--time-limit` for `time_limit_s`.

    The trailing underscore of `from_`, a word of Python's, is dropped too: `--from`.
    """
    plain = field.removesuffix("_db").removesuffix("_s").removesuffix("_per").rstrip("_")
    return "--" + plain.replace("_", "-")


@dataclass(frozen=True, slots=True)
class OptionReference:
    """An option in a sentence, named as on the command line; other interfaces replace the name by theirs."""

    field: str
    """Name of the option in the request, which is its keyword in Python."""
    value: str = ""
    """Value of the option, if the sentence gives one."""

    def __str__(self) -> str:
        return f"{flag_of(self.field)} {self.value}".rstrip()


class EdgeoptError(Exception):
    """A failure: a message that says what happened, and a hint that says what to do.

    `named`: the options that both mention.
    """

    exit_code = EXIT_BUG
    code = "error"

    def __init__(self, message: str, hint: str = "", named: Sequence[OptionReference] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.named = tuple(named)


class UsageError(EdgeoptError):
    exit_code = 2
    code = "usage"


class InputError(EdgeoptError):
    exit_code = 3
    code = "bad-input"


class ModelError(InputError):
    code = "bad-model"


def no_outputs(name: str) -> ModelError:
    """Returns the error for a model whose graph has no outputs to compare or time."""
    return ModelError(
        f"'{name}' has no outputs, so there is nothing to compute.",
        "Export it again with its outputs in the graph.",
    )


class DataError(InputError):
    code = "bad-data"


class ProfileError(InputError):
    code = "bad-profile"


class BundleError(InputError):
    code = "bad-bundle"


class DiskFullError(InputError):
    code = "disk-full"

    def __init__(self, message: str, hint: str = "", place: Path | str = "") -> None:
        """`place`: the file or folder to write."""
        super().__init__(message, hint)
        self.place = Path(place)


def no_room(place: Path | str) -> DiskFullError:
    """Returns the error for a full disk; a temporary file is named by its folder."""
    temporary = _temporary_folder(Path(place))
    what, another = (
        (f"'{place}'", "choose another place")
        if temporary is None
        else (f"temporary files in '{temporary}'", "name another folder in TMPDIR")
    )
    return DiskFullError(
        f"The disk is full: there is no room for {what}.",
        f"Free some space there or {another}, then run the same command again.",
        place,
    )


def is_disk_full(error: OSError) -> bool:
    """Whether the disk is full; numpy sets no error number if only a part of an array was written."""
    if error.errno is None:
        return re.fullmatch(r"\d+ requested and \d+ written", str(error)) is not None
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def writing_to(place: Path | str, inside: Path | None = None) -> Iterator[None]:
    """Raises DiskFullError, which names `place`, if its disk is full.

    With `inside`, `place` replaces only the names of files in that folder; files elsewhere keep their names.
    """
    try:
        yield
    except DiskFullError as error:
        if inside is not None and error.place.is_relative_to(inside):
            raise no_room(place) from error
        raise
    except OSError as error:
        if not is_disk_full(error):
            raise
        failure = disk_full(error)
        elsewhere = inside is not None and _has_place(error) and not failure.place.is_relative_to(inside)
        raise failure if elsewhere else no_room(place) from error


def disk_full(error: OSError) -> DiskFullError:
    """Returns the error for the file that a system call wrote, or for the temporary folder if it is unknown."""
    # The first name of a failed copy is the source.
    return no_room(error.filename2 or error.filename if _has_place(error) else tempfile.gettempdir())


def _has_place(error: OSError) -> bool:
    return isinstance(error.filename2 or error.filename, str)


def _temporary_folder(place: Path) -> Path | None:
    """Returns the folder for temporary files that contains the place, if it is one of edgeopt's."""
    # A process that starts when $TMPDIR is full gets another folder from Python.
    folders = {Path(tempfile.gettempdir()), Path(os.environ.get("TMPDIR") or os.sep)}
    for each in (place, *place.parents):
        if re.fullmatch(r"edgeopt-[a-z]+-\d+-[0-9a-f]{16}", each.name):  # of a process that may have another one
            return each.parent
        if each in folders and (each == place or place.relative_to(each).parts[0].startswith("edgeopt-")):
            return each
    return None


class ConstraintError(EdgeoptError):
    exit_code = 4
    code = "constraints-not-met"


class MissingError(EdgeoptError):
    exit_code = 5
    code = "missing"


EXTRAS = {
    "optimize": ("onnx", "onnx-ir", "onnxscript", "nncf", "scipy"),
    "cpu": ("onnxruntime",),
    "cuda": ("onnxruntime-gpu", "nvidia-ml-py"),
    "directml": ("onnxruntime-directml",),
    "openvino": ("openvino",),
    "sign": ("cryptography",),
    "images": ("pillow",),
    "text": ("tokenizers", "jinja2"),
    "fleet": ("websockets", "aiomqtt", "paho-mqtt", "zeroconf"),
    "lab": ("distributed",),
    "registry": ("oras",),
    "track": ("mlflow-skinny",),
    "gui": ("pyside6-essentials", "pyqtgraph"),
    "agent": (
        *("starlette", "uvicorn", "httptools", "uvloop", "websockets", "prometheus-client"),
        *("grpcio", "protobuf", "cryptography"),
    ),
}
"""The packages of each extra, as in pyproject.toml."""


def pip_install(extra: str) -> str:
    """Returns the command that installs an extra, by its packages: edgeopt itself is on no package index."""
    return f"pip install {' '.join(EXTRAS.get(extra, (extra,)))}"


class MissingExtraError(MissingError):
    code = "missing-extra"

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the '{extra}' extra, which is not installed.",
            f"Install it with: {pip_install(extra)}",
        )
        self.extra = extra


class VerificationError(EdgeoptError):
    exit_code = 6
    code = "verification-failed"


class TrialError(EdgeoptError):
    code = "trial-failed"

    def __init__(self, message: str, hint: str = "", code: str = "", ending: Ending = "") -> None:
        """`code`: error code that the trial reported, such as "usage"; it also sets the exit code."""
        super().__init__(message, hint)
        self.ending = ending
        if code:
            self.code = code
            self.exit_code = exit_code_of(code)


class WorkerError(EdgeoptError):
    code = "worker-failed"

    def __init__(self, message: str, hint: str = "", ending: Ending = "") -> None:
        super().__init__(message, hint)
        self.ending = ending


class OverloadError(EdgeoptError):
    code = "overloaded"


class DeadlineError(EdgeoptError):
    code = "too-late"


class StoppedError(EdgeoptError):
    exit_code = EXIT_CANCELLED
    code = "cancelled"


def exit_code_of(code: str, tree: type[EdgeoptError] = EdgeoptError) -> int:
    """Returns the exit code of the errors with this code; 1 for an unknown code."""
    if tree.code == code:
        return tree.exit_code
    return max((exit_code_of(code, each) for each in tree.__subclasses__()), default=EXIT_BUG)


def error_with_code(code: str, message: str, hint: str) -> EdgeoptError:
    """Returns the error that another process raised; an error with further fields becomes its parent class."""
    kind = _kind_with_code(code, EdgeoptError) or EdgeoptError
    while kind.__init__ is not EdgeoptError.__init__:
        kind = kind.__mro__[1]
    return kind(message, hint)


def _kind_with_code(code: str, tree: type[EdgeoptError]) -> type[EdgeoptError] | None:
    if tree.code == code:
        return tree
    return next((found for each in tree.__subclasses__() if (found := _kind_with_code(code, each))), None)


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: unwind, clean up, exit with 143.

    It is a KeyboardInterrupt, because asyncio passes no other exception of a signal handler on.
    """


def error_text(error: BaseException) -> str:
    """Returns a library's error message on one line, without places in the library's own source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("Exception from ", "Check '", "FrontEnd API failed"))]
    text = " ".join(kept or lines) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."


def printable(text: str, line_ends: bool = False) -> str:
    """Returns the text with control characters escaped, for a log, a status or a terminal.

    Line ends are escaped too, unless `line_ends`.
    """
    if line_ends:
        return "\n".join(map(printable, text.split("\n")))
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def legible(text: str, line_ends: bool = False) -> str:
    """Returns text from elsewhere for display: `printable`, with overlong words and texts cut."""
    if len(text) <= LONGEST_WORD and text.isprintable():
        return text
    shown = _OVERLONG.sub(_without_middle, printable(text, line_ends))
    return shown if len(shown) <= LONGEST_TEXT else f"{shown[: LONGEST_TEXT - 1]}…"


def _without_middle(word: re.Match[str]) -> str:
    kept = LONGEST_WORD // 2
    return f"{word[0][: kept - 1]}…{word[0][-kept:]}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def signal_name(number: int) -> str:
    """SIGSEGV for 11; a signal without a name keeps its number."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
