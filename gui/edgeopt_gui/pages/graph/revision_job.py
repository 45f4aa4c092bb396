"""The job that writes the revisions of a model, into a folder that is gone once they are read."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from edgeopt.commands.graph.revisions import Revision, Revisions
from edgeopt.decoding import thread_safe
from edgeopt.workspace import temporary_folder
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner


class RevisionJob:
    def __init__(self, jobs: JobRunner) -> None:
        self._jobs = jobs
        self._job: Job | None = None

    @property
    def running(self) -> bool:
        return self._job is not None

    def start(self, command: Command, then: Callable[[tuple[Revision, ...] | Ending], None]) -> None:
        """Runs the command line, with its file in a folder of its own; `then` gets the revisions or why not."""
        folder = temporary_folder("graph")
        file = Path(folder.name, "graphs.json")

        def ended(ending: Ending) -> None:
            self._job = None
            good = ending.good
            found = (
                msgspec.json.decode(file.read_bytes(), type=thread_safe(Revisions)).revisions if good else ending
            )
            folder.cleanup()
            then(found)

        self._job = self._jobs.run(
            Command(command.title, (*command.arguments[:-1], str(file)), alone=command.alone)
        )
        self._job.ended.connect(ended)

    def cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()
