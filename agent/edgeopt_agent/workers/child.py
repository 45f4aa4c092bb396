"""The process of one worker: loads a release, then answers one frame after the other, until its socket closes."""

import dataclasses
import faulthandler
import os
import select
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.fleet.records import ServerBatching
from edgeopt.platform import lifeline
from edgeopt.workers.protocol import leave_out_the_converter
from edgeopt_agent.workers.child_io import Frame, Frames
from edgeopt_agent.workers.confinement import Confinement, WorkerLimit, confine
from edgeopt_agent.workers.frames import Load, Loaded
from edgeopt_agent.workers.heartbeat import answer_heartbeats
from edgeopt_agent.workers.lane_mark import LARGE, NONE, SMALL, LaneMark
from edgeopt_agent.workers.served import Reply, Served, load_served

_SMALL_SHARE = 0.8
"""Largest share of the time since a large request began that small ones may take."""


def main() -> None:
    faulthandler.enable()
    small, large = (socket.socket(fileno=int(each)) for each in sys.argv[1:3])
    mark = LaneMark(int(sys.argv[3]))
    lifeline.end_group_with(int(sys.argv[4]))
    _prefer_to_be_killed()
    # Before the first thread: limits of threads that run already would stay as they are.
    cores = socket.socket(fileno=int(sys.argv[6]))
    limits = confine(msgspec.json.decode(sys.argv[7], type=thread_safe(Confinement)), cores)
    answer_heartbeats(socket.socket(fileno=int(sys.argv[5])))
    leave_out_the_converter()
    # Runtimes print to stdout too; nobody reads that.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        _serve(small, large, mark, limits)
    except (BrokenPipeError, ConnectionResetError):
        # The agent is gone: so is everyone who could be told.
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the process's edge
        traceback.print_exc()
        os._exit(1)
    # Not a runtime's own goodbye, which can hang or crash when all is done.
    os._exit(0)


def _serve(small: socket.socket, large: socket.socket, mark: LaneMark, limits: tuple[WorkerLimit, ...]) -> None:
    frames = Frames(small)
    turns = _SmallFirst(frames, mark)
    mark.set(SMALL)
    served: Served | None = None
    while served is None:
        frame = frames.receive()
        if frame is None:
            return
        assert isinstance(frame.message, Load)  # noqa: S101 - the agent loads first
        served, answer = load_served(frame.message)
        if isinstance(answer, Loaded):
            answer = msgspec.structs.replace(answer, limits=limits)
        frames.send(answer)
    batching = answer.batching if isinstance(answer, Loaded) else None
    turns.answer = _answering(served, frames, batching)
    large_frames = Frames(large, turns.pause)
    answer_large = _answering(dataclasses.replace(served, pause=turns.pause), large_frames, batching)
    mark.set(NONE)
    while lanes := [each for each in (frames, large_frames) if not each.ended]:
        # Alternately, so that small requests without end cannot keep a large one waiting.
        for lane in select.select(lanes, [], [])[0]:
            if lane is frames:
                mark.set(SMALL)
                turns.answer()
            else:
                mark.set(LARGE)
                turns.begin()
                answer_large()
            mark.set(NONE)


def _answering(served: Served, frames: Frames, batching: ServerBatching | None) -> Callable[[], None]:
    """Returns a function that receives one frame, or those of one batch, and answers."""
    replies = _replies(served, frames, batching)

    def answer() -> None:
        if (frame := frames.receive()) is not None:
            for reply in replies(frame):
                frames.send(*reply)
            if served.sampler is not None:
                served.sampler.look()

    return answer


def _replies(
    served: Served, frames: Frames, batching: ServerBatching | None
) -> Callable[[Frame], Iterable[Reply]]:
    if batching is None or not batching.used:
        return lambda frame: [served.answer(frame)]
    from edgeopt_agent.workers.batches import Batches

    return Batches(served, frames, batching).answer


class _SmallFirst:
    """Answers small requests in the pauses of a large one, but never lets them take most of the time for long."""

    def __init__(self, frames: Frames, mark: LaneMark) -> None:
        self.answer: Callable[[], None] = lambda: None
        """Receives and answers one small request, or those of one batch."""
        self._frames, self._mark = frames, mark
        self._begin_s = self._small_s = 0.0

    def begin(self) -> None:
        """Notes that a large request begins."""
        self._begin_s, self._small_s = time.perf_counter(), 0.0

    def pause(self) -> None:
        now_s = time.perf_counter()
        if self._small_s > _SMALL_SHARE * (now_s - self._begin_s) or self._frames.ended:
            return
        if self._frames.ready(0.0):
            self._mark.set(SMALL)
            self.answer()
            self._mark.set(LARGE)
            self._small_s += time.perf_counter() - now_s


def _prefer_to_be_killed() -> None:
    """Makes the kernel end this worker before the agent when memory runs out: the agent can start it again."""
    path = Path("/proc/self/oom_score_adj")
    if path.exists():
        path.write_text("500", encoding="ascii")


if __name__ == "__main__":
    main()
