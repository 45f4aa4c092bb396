"""What a process answers that cannot do what it was asked, and what is noted of one that gave no answer."""

import msgspec

from edgeopt.errors import DiskFullError, EdgeoptError, Ending, TrialError, disk_full, is_disk_full, said_by

FAILED, NO_MEMORY, NO_PACKAGE = "failed", "out-of-memory", "missing-package"
"""Codes of what no error of edgeopt's own stands for."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    message: str
    """A sentence; where the process ended, what it did: "crashed: SIGSEGV"."""
    hint: str = ""
    code: str = FAILED
    """The kind of error, as `errors` names it."""
    ending: Ending = ""

    @property
    def told(self) -> str:
        """As it reads where nobody has named the process."""
        return f"its process {self.message}" if self.ending else self.message


def failure_of(error: BaseException) -> Failed:
    """The edge of every process that is asked: whatever a library raises is an answer."""
    if isinstance(error, EdgeoptError):
        return Failed(error.message, error.hint, error.code)
    if isinstance(error, OSError) and is_disk_full(error):
        return failure_of(disk_full(error))
    if isinstance(error, MemoryError):
        return Failed("There is not enough memory.", code=NO_MEMORY)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Failed(f"The Python package '{error.name}' is not installed.", code=NO_PACKAGE)
    return Failed(f"{type(error).__name__}: {said_by(error)}")


def refuse_machine_failure(answer: object) -> None:
    """Raises what says nothing of what was asked: the system gave no process, or a disk is full."""
    if isinstance(answer, Failed) and answer.ending == "not-started":
        raise TrialError(f"A process {answer.message.rstrip('.')}.", answer.hint, answer.code, answer.ending)
    if isinstance(answer, Failed) and answer.code == DiskFullError.code:
        raise DiskFullError(answer.message, answer.hint)


def ended(error: TrialError) -> Failed:
    """The answer of a process that gave none."""
    return Failed(error.message, error.hint, error.code, error.ending)
