"""What a process answers that cannot do what it was asked, and what is noted of one that gave no answer."""

import msgspec

from edgeopt.errors import EdgeoptError, Ending, MissingExtraError, TrialError, said_by

FAILED, NO_MEMORY = "failed", "out-of-memory"
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
    if isinstance(error, MemoryError):
        return Failed("There is not enough memory.", code=NO_MEMORY)
    if isinstance(error, ModuleNotFoundError):
        return Failed(f"The Python package '{error.name}' is not installed.", code=MissingExtraError.code)
    return Failed(f"{type(error).__name__}: {said_by(error)}")


def ended(error: TrialError) -> Failed:
    """The answer of a process that gave none."""
    return Failed(error.message, error.hint, error.code, error.ending)
