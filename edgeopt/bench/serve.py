"""The loop of a child process: one request line in, one answer line out, ends when its stdin closes."""

import os
import sys
from collections.abc import Callable

from edgeopt.bench import lifeline


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answers requests until the parent ends; whatever else is printed goes to stderr's file."""
    lifeline.die_with_parent()
    requests = lifeline.requests_until_parent_ends()
    # Runtimes print to stdout too, so answers keep the pipe for themselves.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        answers.write(answer(requests.get()) + b"\n")
