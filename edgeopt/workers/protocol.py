"""The protocol of worker processes: one line of JSON for each request and answer; exceptions are answers too."""

import faulthandler
import os
import sys
import traceback
from collections.abc import Callable

import msgspec

from edgeopt.errors import DiskFullError, EdgeoptError, Ending, TrialError, disk_full, error_text, is_disk_full
from edgeopt.platform import lifeline

FAILED, NO_MEMORY, NO_PACKAGE = "failed", "out-of-memory", "missing-package"
"""Codes of errors that are not edgeopt's own."""


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The answer of a task that returns nothing."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    message: str
    """A sentence, or what happened if the process ended: "crashed: SIGSEGV"."""
    hint: str = ""
    code: str = FAILED
    """The kind of error, a code as in `errors`."""
    ending: Ending = ""

    @property
    def reason(self) -> str:
        """The message, with the process as its subject if the process ended."""
        return f"its process {self.message}" if self.ending else self.message


def failure_of(error: BaseException) -> Failed:
    """Returns an exception as an answer; each worker process uses it for whatever a library raises."""
    if isinstance(error, EdgeoptError):
        return Failed(error.message, error.hint, error.code)
    if isinstance(error, OSError) and is_disk_full(error):
        return failure_of(disk_full(error))
    if isinstance(error, MemoryError):
        return Failed("There is not enough memory.", code=NO_MEMORY)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Failed(f"The Python package '{error.name}' is not installed.", code=NO_PACKAGE)
    return Failed(f"{type(error).__name__}: {error_text(error)}")


def raise_machine_failure(answer: object) -> None:
    """Raises the failures that the request did not cause: a process that could not start, or a full disk."""
    if isinstance(answer, Failed) and answer.ending == "not-started":
        raise TrialError(f"A process {answer.message.rstrip('.')}.", answer.hint, answer.code, answer.ending)
    if isinstance(answer, Failed) and answer.code == DiskFullError.code:
        raise DiskFullError(answer.message, answer.hint)


def ended(error: TrialError) -> Failed:
    """Returns the answer for a process that ended without one."""
    return Failed(error.message, error.hint, error.code, error.ending)


def leave_out_the_converter() -> None:
    """Hides OpenVINO's converter from this process; only for edgeopt's own, since users may convert models."""
    # None makes an import fail as if the module were missing; OpenVINO works without it.
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answers requests until stdin closes or the parent ends; all other output goes to stderr's file."""
    faulthandler.enable()
    if len(sys.argv) > 1:
        lifeline.end_group_with(int(sys.argv[1]))
    leave_out_the_converter()
    requests = lifeline.requests_until_parent_ends()
    # Runtimes print to stdout too, so the pipe is kept for answers only.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        while True:
            _write(answers, answer(requests.get()) + b"\n")
    except BaseException:  # noqa: BLE001 - the process's edge
        # Python would abort instead while the lifeline still reads, and the reason would be lost.
        traceback.print_exc()
        os._exit(1)


def _write(descriptor: int, line: bytes) -> None:
    """Writes all bytes of a line: one write to a pipe may be partial if the process is stopped and continued."""
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
