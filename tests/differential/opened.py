"""A model loaded as the product loads it, with options: its answers, or what is said against them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Backend
from edgeopt.errors import EdgeoptError
from edgeopt.workers.isolated_backend import IsolatedBackends
from tests.differential.runtimes import Answers, Outputs

Samples = Sequence[Mapping[str, np.ndarray]]

_CRASHED = "crashed: "


class Opened:
    """The backends; use `opened()`, so that its processes end."""

    def __init__(self, apart: IsolatedBackends, *, all_apart: bool) -> None:
        self._apart, self._all_apart = apart, all_apart

    def answers(self, backend: str, path: Path, options: Mapping[str, object], samples: Samples) -> Answers:
        found = backend_named(backend)
        # OpenVINO takes its process along on some of these models.
        if self._all_apart or backend.startswith("openvino"):
            found = self._apart.of(found)
        answers = _answers(found, path, options, samples)
        # What earlier models did to its memory is not this one's fault: it has a process of its own now.
        return _answers(found, path, options, samples) if _crashed(answers) else answers


def _crashed(answers: Answers) -> bool:
    return any(isinstance(one, str) and _CRASHED in one for one in answers)


@contextmanager
def opened(*, apart: bool = False) -> Iterator[Opened]:
    """`apart`: every runtime in processes of its own, not only what crashes."""
    with closing(IsolatedBackends()) as processes:
        yield Opened(processes, all_apart=apart)


def _answers(backend: Backend, path: Path, options: Mapping[str, object], samples: Samples) -> Answers:
    try:
        session = backend.load(path, options)  # type: ignore[arg-type]
    except EdgeoptError as error:
        return [str(error)] * len(samples)
    with closing(session):
        taken = {info.name for info in session.inputs}
        return [_answer(session, {n: a for n, a in feeds.items() if n in taken}) for feeds in samples]


def _answer(session: object, feeds: Mapping[str, np.ndarray]) -> Outputs | str:
    try:
        return {name: np.array(array) for name, array in session.run(feeds).items()}  # type: ignore[attr-defined]
    except EdgeoptError as error:
        return str(error)
