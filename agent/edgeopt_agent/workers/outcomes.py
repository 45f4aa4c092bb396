"""The outcome of a request to a worker: its answer, or how the worker ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from edgeopt.errors import EdgeoptError
from edgeopt_agent.drift.figures import TensorFigures
from edgeopt_agent.workers.channel import Body
from edgeopt_agent.workers.frames import NotFinite


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


Request = tuple[Sequence[bytes], int | None, str, bool]
"""The parts of a body, where its JSON ends, its encoding, and whether it is processed (see `Infer`)."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Body
    header_length: int | None
    """Length of the JSON if tensors follow it; otherwise None."""
    compute_ms: float
    rows: int = 1
    fault: bool = False
    """Whether the model failed, and not the request."""
    not_finite: NotFinite = ""
    batched: int = 1
    """Requests that shared the run and its time."""
    executions: int = 1
    """0 where another request of the batch counts the run."""
    release_id: str = ""
    """The release that answered."""
    processing_ms: float = 0.0
    looked: tuple[TensorFigures, ...] = ()
    """Statistics of an earlier request to the same worker."""

    def reason(self) -> str:
        """Returns the sentence of an error answer."""
        return str(msgspec.json.decode(self.body)["error"])
