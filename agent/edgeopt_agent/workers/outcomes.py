"""The outcome of a request to a worker: its answer, or how the worker ended."""

from dataclasses import dataclass

import msgspec

from edgeopt.errors import EdgeoptError
from edgeopt_agent.workers.channel import Body
from edgeopt_agent.workers.frames import Answered


class WorkerError(EdgeoptError):
    """A worker that could not do what it was asked; the reason is a sentence."""

    code = "worker-failed"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "The worker's log in the agent's data folder may tell more.")
        self.reason = reason


class WorkerDied(WorkerError):  # noqa: N818 - an ending, as its name says
    """The end of a worker's process before it had answered."""

    def __init__(self, reason: str, begun: bool) -> None:
        super().__init__(reason)
        self.begun = begun
        """False where another request may be to blame: one that it waited behind, or shared a batch with."""


class RequestTooLarge(WorkerDied):
    """The end of a worker that ran out of memory while it worked on this request."""


class WorkerTimeout(WorkerDied):
    """The end of a worker that was killed because it did not answer in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request, with what the worker says of its run."""

    run: Answered
    body: Body
    header_length: int | None = None
    """Bytes of JSON before the tensors; None if no tensors follow."""
    release_id: str = ""
    """The release that answered; empty for an answer of the agent itself."""

    @property
    def status(self) -> int:
        return self.run.status

    def reason(self) -> str:
        """Returns the sentence of an answer that is an error."""
        return str(msgspec.json.decode(self.body)["error"])


def refusal(status: int, sentence: str) -> Answer:
    """Returns an answer of the agent itself, which no worker gave."""
    return Answer(Answered(status, 0.0), msgspec.json.encode({"error": sentence}))
