"""Live telemetry for all who watch: one sampler however many they are, and none when there is nobody."""

import asyncio
from collections.abc import Iterable

from edgeopt.events import Event, Log, Progress, encode
from edgeopt_agent.telemetry.sampler import TICKS_PER_S, Sampler
from edgeopt_agent.workers.router import Router

_FRAMES_BEHIND = 5 * TICKS_PER_S


class Viewer:
    """The frames that one viewer has not been sent yet; `dropped` is set when the viewer does not keep up."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[str] = asyncio.Queue(_FRAMES_BEHIND)
        self.dropped = asyncio.Event()

    def put(self, frame: str) -> None:
        try:
            self.frames.put_nowait(frame)
        except asyncio.QueueFull:
            self.dropped.set()


class Hub:
    def __init__(self, router: Router, model: str = "") -> None:
        """Takes the name of an added model, which its figures carry."""
        self._model = model
        self._router = router
        self._viewers: set[Viewer] = set()
        self._present: Progress | None = None
        self._sampler: Sampler | None = None
        self._sampling: asyncio.Task[None] | None = None

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    @property
    def sampling(self) -> bool:
        return self._sampling is not None

    def publish(self, event: Event) -> None:
        """Sends an event to all viewers; viewers who come later also get the last progress."""
        if isinstance(event, Progress):
            self._present = event
        self._send((event,))

    def join(self) -> Viewer:
        viewer = Viewer()
        self._viewers.add(viewer)
        if self._sampler is None:
            self._sampler = Sampler(self._router, self._model)
            self._sampling = asyncio.create_task(self._sample(self._sampler), name="telemetry")
        first: list[Event] = [self._present] if self._present else []
        first += [
            Log("info", f"This device does not report {name}: {why}.", kind="no-metric", subject=name, reason=why)
            for name, why in self._sampler.missing().items()
        ]
        if first:
            viewer.put("\n".join(map(encode, first)))
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        if not self._viewers and self._sampler is not None and self._sampling is not None:
            self._sampling.cancel()
            self._sampler.stop()
            self._sampling = self._sampler = None

    def close(self) -> None:
        """Sends all viewers away."""
        for viewer in self._viewers:
            viewer.dropped.set()

    async def _sample(self, sampler: Sampler) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            # After a pause (a suspended machine) it goes on from now, and does not make up for it.
            due = max(due + 1 / TICKS_PER_S, loop.time())
            await asyncio.sleep(due - loop.time())
            self._send(sampler.tick())

    def _send(self, events: Iterable[Event]) -> None:
        if self._viewers:
            frame = "\n".join(map(encode, events))
            for viewer in self._viewers:
                viewer.put(frame)
