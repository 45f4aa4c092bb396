"""The names that a release is served by: NAME, and NAME.raw for the plain model of a bundle with processing."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgeopt_agent.workers.frames import RAW, Signature
from edgeopt_agent.workers.process import Worker


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as requests name it."""

    name: str
    worker: Worker
    signature: Signature
    processed: bool
    """Whether requests go through the bundle's processing."""


@dataclass(frozen=True, slots=True)
class Vacancy:
    """A model that nothing serves any more, and that nothing is about to serve."""

    name: str
    why: str
    """Sentence that says what happened to the model's release, and what to do."""


def served_models(worker: Worker) -> Iterator[ServedModel]:
    """Yields the models that a worker serves, the one with its own name first."""
    if worker.processed is None:
        yield ServedModel(worker.name, worker, worker.plain, processed=False)
    else:
        yield ServedModel(worker.name, worker, worker.processed, processed=True)
        yield ServedModel(worker.name + RAW, worker, worker.plain, processed=False)


def clashes(name: str, other: str) -> bool:
    """Whether two models cannot be served side by side, because one would have a name of the other."""
    return name == other or name == other + RAW or other == name + RAW


def clash_sentence(name: str, other: str) -> str:
    if name == other:
        return f"Another model of this agent is called '{name}'."
    return (
        f"The models '{name}' and '{other}' cannot be on one agent: '{max(name, other, key=len)}' is the name of "
        f"'{min(name, other, key=len)}' without processing."
    )
