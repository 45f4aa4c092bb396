"""The process of one worker: loads a release, then answers one frame after the other, until its socket closes."""

import os
import socket
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.hw import lifeline
from edgeopt.measure.processes.lean import leave_out_the_converter
from edgeopt_agent.workers.child_io import Frames
from edgeopt_agent.workers.confinement import Confinement, WorkerLimit, confine
from edgeopt_agent.workers.frames import Batching, Load, Loaded
from edgeopt_agent.workers.heartbeat import answer_heartbeats
from edgeopt_agent.workers.served import Served, load_served

if TYPE_CHECKING:
    from edgeopt_agent.workers.batches import Batches


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    lifeline.end_group_with(int(sys.argv[2]))
    _prefer_to_be_killed()
    # Before the first thread: limits of threads that run already would stay as they are.
    limits = confine(msgspec.json.decode(sys.argv[4], type=Confinement))
    answer_heartbeats(socket.socket(fileno=int(sys.argv[3])))
    leave_out_the_converter()
    # Runtimes print to stdout too; nobody reads that.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        _serve(Frames(connection), limits)
    except (BrokenPipeError, ConnectionResetError):
        # The agent is gone: so is everyone who could be told.
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the process's edge
        traceback.print_exc()
        os._exit(1)
    # Not a runtime's own goodbye, which can hang or crash when all is done.
    os._exit(0)


def _serve(frames: Frames, limits: tuple[WorkerLimit, ...]) -> None:
    served: Served | None = None
    batches: Batches | None = None
    while (frame := frames.receive()) is not None:
        if isinstance(frame.message, Load):
            served, answer = load_served(frame.message)
            if isinstance(answer, Loaded):
                answer = msgspec.structs.replace(answer, limits=limits)
                batches = _batches(served, frames, answer.batching)
            frames.send(answer)
        elif batches is not None:
            for reply in batches.answer(frame):
                frames.send(*reply)
        else:
            assert served is not None  # noqa: S101 - the agent loads first
            frames.send(*served.answer(frame))


def _batches(served: Served | None, frames: Frames, batching: Batching | None) -> "Batches | None":
    if served is None or batching is None or not batching.used:
        return None
    from edgeopt_agent.workers.batches import Batches

    return Batches(served, frames, batching)


def _prefer_to_be_killed() -> None:
    """Where memory runs out, a worker goes before the agent, which can start it again."""
    path = Path("/proc/self/oom_score_adj")
    if path.exists():
        path.write_text("500", encoding="ascii")


if __name__ == "__main__":
    main()
