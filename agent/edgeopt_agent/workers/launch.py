"""Starts a worker's process, tied to this one by sockets, a lifeline and a log."""

import asyncio
import errno
import os
import signal
import socket
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.hw.child import python_command
from edgeopt.workers.host import child_environment
from edgeopt_agent.workers.channel import Channel
from edgeopt_agent.workers.confinement import Confinement
from edgeopt_agent.workers.heartbeat import Heartbeat
from edgeopt_agent.workers.lane_mark import LaneMark, new_descriptor
from edgeopt_agent.workers.lanes import Lanes
from edgeopt_agent.workers.log import WorkerLog
from edgeopt_agent.workers.memory import MemoryGroup, new_group
from edgeopt_agent.workers.thread_cores import ThreadCores

MODULE = "edgeopt_agent.workers.child"
# Others may give back what a start lacks: it waits for that, instead of counting as a failure of the release.
_SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
_WAIT_FOR_RESOURCES_S = 30.0
_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class Launched:
    process: asyncio.subprocess.Process
    lanes: Lanes
    heartbeat: Heartbeat
    cores: ThreadCores
    log: WorkerLog
    group: MemoryGroup | None
    """Control group that limits the worker's memory; None if the worker limits itself."""
    lifeline: int
    """This end of a pipe that nothing is written to: that it closes with this process is the message."""


async def launch(log_file: Path, confinement: Confinement) -> Launched:
    """Starts a process and connects it; raises OSError if that fails, and then removes all of it."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _WAIT_FOR_RESOURCES_S
    while True:
        try:
            return await _started(log_file, confinement)
        except OSError as error:
            if error.errno not in _SHORT_OF or loop.time() >= deadline_s:
                raise
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _started(log_file: Path, confinement: Confinement) -> Launched:
    loop = asyncio.get_running_loop()
    with ExitStack() as on_failure:
        group = new_group(confinement.memory_bytes)
        if group is not None:
            on_failure.callback(group.remove)
            confinement = msgspec.structs.replace(confinement, memory_bytes=0)
        with ExitStack() as after_start:
            small_socket, their_small = _pair(on_failure, after_start)
            large_socket, their_large = _pair(on_failure, after_start)
            heartbeat_socket, their_heartbeat = _pair(on_failure, after_start)
            cores_socket, their_cores = _pair(on_failure, after_start)
            lifeline_end, lifeline = os.pipe()
            after_start.callback(os.close, lifeline_end)
            on_failure.callback(os.close, lifeline)
            log_end, log_start = os.pipe()
            after_start.callback(os.close, log_start)
            log_pipe = on_failure.enter_context(os.fdopen(log_end, "rb", buffering=0))
            mark = new_descriptor()
            after_start.callback(os.close, mark)
            lane_mark = LaneMark(mark)
            on_failure.callback(lane_mark.close)
            sockets = (their_heartbeat.fileno(), their_cores.fileno())
            passed = (their_small.fileno(), their_large.fileno(), mark, lifeline_end, *sockets)
            encoded = msgspec.json.encode(confinement).decode()
            process = await asyncio.create_subprocess_exec(
                *python_command("-P", "-m", MODULE, *map(str, passed), encoded),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log_start,
                stderr=log_start,
                start_new_session=True,
                pass_fds=passed,
                env=child_environment(None, calculates=False),
            )
        on_failure.callback(_kill, process)
        cores = ThreadCores(cores_socket, process.pid)
        on_failure.callback(cores.close)
        if group is not None and not group.take(process.pid):
            group = None
        channels: list[Channel] = []
        for each in (small_socket, large_socket):
            _, channel = await loop.create_unix_connection(Channel, sock=each)
            on_failure.callback(channel.close)
            channels.append(channel)
        _, heartbeat = await loop.create_unix_connection(Heartbeat, sock=heartbeat_socket)
        on_failure.callback(heartbeat.close)
        log = WorkerLog(log_file)
        on_failure.callback(log.connection_lost, None)
        await loop.connect_read_pipe(lambda: log, log_pipe)
        on_failure.pop_all()
    return Launched(process, Lanes(lane_mark, *channels), heartbeat, cores, log, group, lifeline)


def _pair(on_failure: ExitStack, after_start: ExitStack) -> tuple[socket.socket, socket.socket]:
    mine, theirs = socket.socketpair()
    on_failure.enter_context(mine)
    after_start.enter_context(theirs)
    mine.setblocking(False)
    return mine, theirs


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
