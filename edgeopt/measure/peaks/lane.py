"""A measuring process that may crash or hang at any task: it is then restarted without that task."""

import time

from edgeopt.measure.host import TrialHost
from edgeopt.measure.peaks.tasks import Ran, Repeat, Task, decode_answer
from edgeopt.measure.processes.asked import Asked
from edgeopt.measure.processes.failed import Failed, refuse_machine_failure

CHILD_MODULE = "edgeopt.measure.peaks.child"
_MOST_STARTS = 3


class Lane:
    """The tasks of one runtime, or of memory, and the rates of each slice of each task."""

    def __init__(self, name: str, host: TrialHost, tasks: list[Task]) -> None:
        self.name = name
        self.slices: dict[Task, list[tuple[float, ...]]] = {task: [] for task in tasks}
        self.failures: dict[Task, str] = {}
        self._process: Asked[Ran] = Asked(host, CHILD_MODULE, decode_answer, _MOST_STARTS)
        self._asked: Task | None = None

    @property
    def tasks(self) -> list[Task]:
        return [task for task in self.slices if task not in self.failures]

    @property
    def is_busy(self) -> bool:
        return self._asked is not None

    def is_ready(self, timeout_s: float) -> bool:
        """Whether the slice that was begun has ended."""
        return self._process.ready(timeout_s)

    def ask(self, task: Task, slice_ms: float) -> None:
        """Begins a slice; `answer` waits for its end."""
        if task in self.failures:
            return
        self._asked = task
        self._process.send(Repeat(task, slice_ms))

    def answer(self, deadline: float, keep: bool = True) -> None:
        """Waits for the slice that was begun; what failed is not asked again."""
        task, self._asked = self._asked, None
        if task is None:
            return
        answer = self._process.answer(max(0.1, deadline - time.monotonic()))
        refuse_machine_failure(answer)
        if isinstance(answer, Failed):
            self.failures[task] = answer.message
        elif keep:
            self.slices[task].append(answer.rates)

    def close(self) -> None:
        self._process.close()
