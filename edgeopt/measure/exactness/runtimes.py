"""The runtimes of a proof: the first judges; in the others a model must load, and agree if its source runs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from edgeopt.backends.base import in_full_precision
from edgeopt.errors import DiskFullError, EdgeoptError, MissingError, ModelError, pip_install
from edgeopt.hw.device import Unavailable

if TYPE_CHECKING:
    from edgeopt.backends.base import Backend, TensorInfo
    from edgeopt.workers.isolated_backend import IsolatedBackends

"""The runtimes of a proof: the first that runs the source judges; in the others a model must load and agree."""
OTHERS_LIMIT_S = 30.0
"""Time limit for loading in another runtime; OpenVINO takes minutes for a chain of 10,000 nodes."""


class OpenedModel:
    """A model loaded in a runtime; raises EdgeoptError if it does not load."""

    def __init__(self, path: Path, backend: "Backend", options: "Mapping[str, str] | None" = None) -> None:
        self.path, self.backend, self._options = path, backend, options or {}
        self._session = backend.load(path, self._options)

    @property
    def inputs(self) -> "tuple[TensorInfo, ...]":
        return self._session.inputs

    def run(self, sample: "Mapping[str, Any]") -> dict[str, Any]:
        try:
            return self._session.run(sample)
        except EdgeoptError:
            # A runtime that crashed has lost the model.
            self._session.close()
            self._session = self.backend.load(self.path, self._options)
            raise

    def close(self) -> None:
        self._session.close()


Feeds = list[dict[str, Any]]
Found = TypeVar("Found")


def first_opened(path: Path, backends: "tuple[Backend, ...]" = ()) -> OpenedModel:
    """Opens a model in the first runtime that loads it; raises ModelError if none does."""
    return _first_that(lambda backend: OpenedModel(path, backend), backends or judges())


def first_answer(
    opened: OpenedModel, feeds: Feeds, backends: "tuple[Backend, ...]" = ()
) -> "tuple[OpenedModel, list[dict[str, Any]]]":
    """Returns the model in the first runtime that runs it, and its answers; raises ModelError if none does.

    A runtime that loads the model but does not run it is skipped.
    """

    def ask(backend: "Backend") -> "tuple[OpenedModel, list[dict[str, Any]]]":
        one = opened if backend.name == opened.backend.name else OpenedModel(opened.path, backend)
        try:
            return one, [one.run(sample) for sample in feeds]
        except EdgeoptError:
            one.close()
            raise

    every = backends or judges()
    names = [backend.name for backend in every]
    return _first_that(ask, every[names.index(opened.backend.name) :])


def _first_that(ask: "Callable[[Backend], Found]", backends: "tuple[Backend, ...]") -> Found:
    reasons, missing = [], []
    for backend in backends:
        found = backend.available()
        if isinstance(found, Unavailable):
            missing.append(f"{backend.title} is not here: {found.reason}")
            continue
        try:
            return ask(backend)
        except DiskFullError:
            raise
        except EdgeoptError as error:
            reasons.append(error.message)
    if not reasons:
        raise MissingError("; ".join(missing), pip_install("cpu"))
    raise ModelError(" ".join(f"{reason.rstrip('.')}." for reason in reasons))


def proof_backends() -> "tuple[Backend, ...]":
    from edgeopt.backends import PROCESSOR, backend_named

    return tuple(backend_named(name) for name in PROCESSOR)


def judges() -> "tuple[Backend, ...]":
    return tuple(in_full_precision(backend) for backend in proof_backends())


def also_loading(path: Path, judge: "Backend", isolated: "IsolatedBackends") -> "tuple[Backend, ...]":
    """Returns the other runtimes that load the source.

    A runtime that takes too long to load it would take as long for the result, so it is left out.
    """
    return tuple(
        isolated.of(backend)
        for backend in proof_backends()
        if backend.name != judge.name
        and not isinstance(backend.available(), Unavailable)
        and why_not_loading(path, isolated.of(backend, OTHERS_LIMIT_S)) is None
    )


def why_not_loading(path: Path, backend: "Backend") -> str | None:
    try:
        backend.load(path, {}).close()
    except EdgeoptError as error:
        return f"{backend.title} loads the source, but not the result: {error.message.rstrip('.')}"
    return None
