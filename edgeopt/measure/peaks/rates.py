"""The task of a worker that measures rates; see `tasks`."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from edgeopt.measure.peaks.tasks import Dispatch, Layers, Ran, Repeat, Stream, Task

Rates = Callable[[float], tuple[float, ...]]
"""Function that runs a task for some milliseconds and returns its rates."""

# numpy's library would divide a dot product among threads; here each thread is to read its own memory.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_WARM_UP_RUNS = 3


def open_task(task: Task) -> Rates:
    """Loads what the task needs and warms it up."""
    if isinstance(task, Stream):
        os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
        from edgeopt.measure.peaks.memory import StreamRunner  # numpy reads these variables when it is imported

        return StreamRunner(task).rates
    return _open_model(task)


def _open_model(task: Layers | Dispatch) -> Rates:
    from edgeopt.backends import backend_named
    from edgeopt.measure.peaks import layers

    options: dict[str, str | int] = {"threads": 1}
    units = 1
    if isinstance(task, Layers):
        model, array = layers.chain(task)
        units = layers.operations(task)
        options["threads"] = task.threads
        if task.backend == "openvino-cpu" and task.precision != "int8":
            options["precision"] = task.precision.replace("fp", "f")
    else:
        model, array = layers.nothing()
    with tempfile.NamedTemporaryFile(suffix=".onnx", delete=False) as file:
        file.write(model)  # the folder for temporary files goes away with the measuring
    session = backend_named(task.backend).load(Path(file.name), options)
    feeds = {"x": array}
    for _ in range(_WARM_UP_RUNS):
        session.run(feeds)

    def rates(slice_ms: float) -> tuple[float, ...]:
        clock = time.perf_counter_ns
        taken: list[int] = []
        now = clock()
        end = now + int(slice_ms * 1e6)
        while now < end or not taken:
            session.run(feeds)
            before, now = now, clock()
            taken.append(max(1, now - before))
        return tuple(units * 1e9 / each for each in taken)

    return rates


class OpenTasks:
    """The tasks that were opened, which stay loaded."""

    def __init__(self) -> None:
        self._opened: dict[Task, Rates] = {}

    def repeat(self, request: Repeat) -> Ran:
        if request.task not in self._opened:
            self._opened[request.task] = open_task(request.task)
        return Ran(self._opened[request.task](request.slice_ms))
