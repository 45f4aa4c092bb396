"""The table of tasks: what a worker process runs for each type of request."""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import UsageError
from edgeopt.workers.protocol import Done, failure_of

TRIAL = "load"
"""Tag of the first request to a trial."""
TASKS = {
    "load": "edgeopt.measure.trial:Trial.load",
    "describe": "edgeopt.measure.trials.openers:describe",
    "time": "edgeopt.measure.trial:Trial.time",
    "outputs": "edgeopt.measure.trial:Trial.save_outputs",
    "unseen": "edgeopt.measure.trial:Trial.unseen",
    "decode": "edgeopt.measure.trial:Trial.decode",
    "generate": "edgeopt.measure.trial:Trial.generate",
    "watch": "edgeopt.measure.trial:Trial.watch",
    "places": "edgeopt.measure.trials.openers:times_by_place",
    "time-stages": "edgeopt.measure.trials.openers:time_stages",
    "time-kernels": "edgeopt.measure.kernel_times:time_kernels",
    "repeat": "edgeopt.measure.peaks.rates:OpenTasks.repeat",
    "open-model": "edgeopt.workers.isolated_backend:ModelHolder.open",
    "run-model": "edgeopt.workers.isolated_backend:ModelHolder.run",
    "close-model": "edgeopt.workers.isolated_backend:ModelHolder.close",
    "inspect": "edgeopt.pipeline.builders.inspect:inspect_model",
    "make": "edgeopt.pipeline.plans.recipes:make_variant",
    "cover": "edgeopt.commands.analyze.tasks:cover",
    "rewrites": "edgeopt.commands.analyze.tasks:find_rewrites",
    "real-shapes": "edgeopt.commands.analyze.tasks:find_real_shapes",
    "open-operator": "edgeopt.commands.ops.tasks:OperatorRunner.open",
    "time-operator": "edgeopt.commands.ops.tasks:OperatorRunner.time",
}
"""The tag of a request, and the function or method that answers it; imported when first needed."""


class Task(NamedTuple):
    """An imported function, and the decoder of its request."""

    run: Callable[[Any], object]
    decode: Callable[[bytes], object]


class _Head(msgspec.Struct, frozen=True):
    type: str


_head = msgspec.json.Decoder(thread_safe(_Head))


class TaskRunner:
    """Runner of the tasks of one process; methods of a class share one object for the process's lifetime."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._objects: dict[type, object] = {}

    def find(self, name: str) -> Task:
        """Returns a task, which is imported on its first use."""
        if name not in TASKS:
            raise UsageError(f"There is no task '{name}'.")
        if name not in self._tasks:
            module, _, place = TASKS[name].partition(":")
            owner, _, function = place.rpartition(".")
            home = importlib.import_module(module)
            answers = getattr(getattr(home, owner) if owner else home, function)
            request = next(iter(get_type_hints(answers).values()))
            run = getattr(self._object_of(getattr(home, owner)), function) if owner else answers
            self._tasks[name] = Task(run, msgspec.json.Decoder(thread_safe(request)).decode)
        return self._tasks[name]

    def _object_of(self, kind: type) -> object:
        if kind not in self._objects:
            self._objects[kind] = kind()
        return self._objects[kind]

    def answer(self, line: bytes) -> bytes:
        """Returns the line that answers a request; an exception is an answer too."""
        try:
            task = self.find(_head.decode(line).type)
            found = task.run(task.decode(line))
            return msgspec.json.encode(Done() if found is None else found)
        except Exception as error:  # noqa: BLE001 - the process's edge: whatever a library raises is a result
            return msgspec.json.encode(failure_of(error))
