"""The end of tasks that others wait for."""

import asyncio
from collections.abc import Iterable

_AGAIN_S = 0.1


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancels them until each has ended; their errors count for nothing.

    Once is not enough: `asyncio.wait_for` of Python 3.11 forgets that it was cancelled if what it waits for is
    done at the same moment, and libraries use it.
    """
    all_ = tuple(tasks)
    left = set(all_)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_AGAIN_S)
    await asyncio.gather(*all_, return_exceptions=True)
