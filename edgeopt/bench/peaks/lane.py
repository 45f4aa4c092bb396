"""A measuring process that may crash or hang at any task: it is started anew without that task."""

import time

import msgspec

from edgeopt.bench.host import LocalChild, LocalHost
from edgeopt.bench.peaks.tasks import Failed, Run, Task, decode_answer
from edgeopt.errors import TrialError

CHILD_MODULE = "edgeopt.bench.peaks.child"
_MOST_STARTS = 3


class Lane:
    """The tasks of one runtime, or of memory, and the rates of each slice of each task."""

    def __init__(self, name: str, host: LocalHost, tasks: list[Task]) -> None:
        self.name = name
        self.slices: dict[Task, list[tuple[float, ...]]] = {task: [] for task in tasks}
        self.failures: dict[Task, str] = {}
        self._host = host
        self._child: LocalChild | None = None
        self._starts = 0
        self._asked: Task | None = None

    @property
    def tasks(self) -> list[Task]:
        return [task for task in self.slices if task not in self.failures]

    @property
    def is_busy(self) -> bool:
        return self._asked is not None

    def is_ready(self, timeout_s: float) -> bool:
        """Whether the slice that was begun has ended."""
        return self._child is not None and self._child.ready(timeout_s)

    def ask(self, task: Task, slice_ms: float) -> None:
        """Begins a slice; `answer` waits for its end."""
        if task in self.failures:
            return
        if self._child is None:
            if self._starts == _MOST_STARTS:
                self.failures[task] = "its process failed too often"
                return
            self._starts += 1
            child = self._host.start(CHILD_MODULE)
            assert isinstance(child, LocalChild)  # noqa: S101 - a local host starts local children
            self._child = child
        self._asked = task
        self._child.send(msgspec.json.encode(Run(task, slice_ms)))

    def answer(self, deadline: float, keep: bool = True) -> None:
        """Waits for the slice that was begun; what failed is not asked again."""
        task, self._asked = self._asked, None
        if task is None or self._child is None:
            return
        try:
            answer = decode_answer(self._child.receive(max(0.1, deadline - time.monotonic())))
        except TrialError as error:
            self.close()
            self._child = None
            self.failures[task] = error.message
            return
        if isinstance(answer, Failed):
            self.failures[task] = answer.message
        elif keep:
            self.slices[task].append(answer.rates)

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
