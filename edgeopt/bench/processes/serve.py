"""The loop of a child process: one request line in, one answer line out, ends when its stdin closes."""

import os
import sys
import traceback
from collections.abc import Callable

from edgeopt.bench.processes import lifeline
from edgeopt.bench.processes.lean import leave_out_the_converter


def serve(answer: Callable[[bytes], bytes]) -> None:
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
