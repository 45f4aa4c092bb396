"""Starts a worker's process, tied to this one by a socket, a lifeline and a log."""

import asyncio
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from edgeopt.measure.processes.environment import child_environment
from edgeopt_agent.workers.channel import Channel
from edgeopt_agent.workers.log import WorkerLog

MODULE = "edgeopt_agent.workers.child"


@dataclass(frozen=True, slots=True)
class Launched:
    process: asyncio.subprocess.Process
    channel: Channel
    log: WorkerLog
    lifeline: int
    """This end of a pipe that nothing is written to: that it closes with this process is the message."""


async def launch(log_file: Path) -> Launched:
    loop = asyncio.get_running_loop()
    mine, theirs = socket.socketpair()
    lifeline_end, lifeline = os.pipe()
    log_end, log_start = os.pipe()
    mine.setblocking(False)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(lifeline_end)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log_start,
            stderr=log_start,
            start_new_session=True,
            pass_fds=(theirs.fileno(), lifeline_end),
            env=child_environment(None, calculates=False),
        )
    except BaseException:
        mine.close()
        os.close(lifeline)
        os.close(log_end)
        raise
    finally:
        theirs.close()
        os.close(lifeline_end)
        os.close(log_start)
    _, log = await loop.connect_read_pipe(lambda: WorkerLog(log_file), os.fdopen(log_end, "rb", buffering=0))
    _, channel = await loop.create_unix_connection(Channel, sock=mine)
    return Launched(process, channel, log, lifeline)
