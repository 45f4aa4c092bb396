"""The loop of a child process: one request line in, one answer line out, ends when its stdin closes."""

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from edgeopt.hw import lifeline
from edgeopt.measure.processes.failed import failure_of
from edgeopt.measure.processes.lean import leave_out_the_converter

Request = TypeVar("Request")
Lines = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Answering(Generic[Request]):
    """What a module answers that is started as a process. Each has one, named `ANSWERING`."""

    decode: Callable[[bytes], Request]
    begin: Callable[[], Callable[[Request], object]]
    """Gives what answers, as a process has it that was asked nothing yet."""

    def lines(self) -> Lines:
        """A line for each line; whatever is raised is an answer too."""
        answer = self.begin()

        def line_for(line: bytes) -> bytes:
            try:
                return msgspec.json.encode(answer(self.decode(line)))
            except Exception as error:  # noqa: BLE001 - the process's edge: whatever a library raises is a result
                return msgspec.json.encode(failure_of(error))

        return line_for


def serve(answer: Lines) -> None:
    """Answers requests until the parent ends; whatever else is printed goes to stderr's file."""
    if len(sys.argv) > 1:
        lifeline.end_group_with(int(sys.argv[1]))
    leave_out_the_converter()
    requests = lifeline.requests_until_parent_ends()
    # Runtimes print to stdout too, so answers keep the pipe for themselves.
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
    """All of it: a pipe takes only part of a long line from a process that is stopped meanwhile, and continued."""
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
