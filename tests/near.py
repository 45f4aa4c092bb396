"""What is asked of processes, answered in this one: for tests of what is asked, not of the processes.

A search starts twenty processes, which import for longer than they work. Here the same tasks answer the same
lines, but whoever crashes or hangs would take the test along. `tests/workers/test_client.py` holds both
to the same answers.
"""

import os
from collections import deque

from edgeopt.workers.host import LocalHost
from edgeopt.workers.tasks import TRIAL, TaskRunner


class NearChild:
    """Answers while it is sent to, so several that are asked at once take turns."""

    def __init__(self, runner):
        self._answer = runner.answer
        self._answers = deque()
        # One byte for each answer that waits: what is waited for with `poll` is a file.
        self._read, self._write = os.pipe()

    def send(self, line):
        if self._answer is not None:
            self._answers.append(self._answer(line))
            os.write(self._write, b".")

    def receive(self, _timeout_s):
        os.read(self._read, 1)
        return self._answers.popleft()

    def ready(self, _timeout_s):
        return bool(self._answers)

    def fileno(self):
        return self._read

    def close(self):
        if self._answer is not None:
            self._answer = None
            os.close(self._read)
            os.close(self._write)


class NearHost(LocalHost):
    """Answers with a `TaskRunner`, or with a `runner` of its own."""

    def start(self, task=TRIAL):  # noqa: ARG002 - it knows all tasks
        return NearChild(getattr(self, "runner", TaskRunner)())
