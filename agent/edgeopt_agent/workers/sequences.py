"""The state of sequences between their requests, for models that carry state from run to run."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeopt.bundle.runtime.session import Session
from edgeopt.bundle.runtime.stream import Stream, found_pairs
from edgeopt.errors import UsageError
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.request import SequenceStep

_Key = int | str


def carried_state(session: Session) -> Mapping[str, str]:
    """Returns the output that carries the state, by the name of its input; empty for a model without."""
    try:
        return found_pairs(session.inputs, session.outputs)
    except UsageError:
        return {}


class Sequences:
    """Sequences at a time; one without a request for the idle time is forgotten."""

    def __init__(self, session: Session, states: Mapping[str, str], maximum: int, idle_s: float) -> None:
        self.states = states
        self._session = session
        self._maximum = maximum
        self._idle_s = idle_s
        self._streams: dict[_Key, tuple[Stream, float]] = {}
        """Streams with the time of their last request; the longest idle one first."""

    def run(self, step: SequenceStep, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs one step; returns its outputs without the state; raises RequestError for an unknown sequence."""
        self._forget_idle()
        # Copies: the request's own memory is used again for the next one.
        initial = {name: np.array(array) for name, array in feeds.items() if name in self.states}
        stream = self._new(step, initial) if step.start else self._known(step)
        outputs = stream.step({name: array for name, array in feeds.items() if name not in initial})
        self._streams.pop(step.id, None)
        if not step.end:
            self._streams[step.id] = stream, time.monotonic()
        return outputs

    def _new(self, step: SequenceStep, initial: Mapping[str, NDArray[Any]]) -> Stream:
        if len(self._streams) >= self._maximum and step.id not in self._streams:
            raise RequestError(
                503, f"{self._maximum} sequences are open already (max_sequences); end one, or try again later."
            )
        return self._session.stream(self.states, initial)

    def _known(self, step: SequenceStep) -> Stream:
        found = self._streams.get(step.id)
        if found is None:
            raise RequestError(
                400,
                f"There is no sequence {step.id!r} here: it was not begun with sequence_start, it was idle for "
                f"more than {self._idle_s:g} s, or the release that had it was replaced or started again.",
            )
        return found[0]

    def _forget_idle(self) -> None:
        oldest = time.monotonic() - self._idle_s
        while self._streams:
            key, (_, last_s) = next(iter(self._streams.items()))
            if last_s >= oldest:
                return
            del self._streams[key]
