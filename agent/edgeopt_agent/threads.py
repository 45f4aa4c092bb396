"""Long work in a thread that the end of the agent does not wait for."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


async def in_thread(work: Callable[[], Found]) -> Found:
    """Runs `work` in a thread like `asyncio.to_thread`, but the end of the agent does not wait for this one.

    Only for what may stop anywhere: a start of the agent sweeps what is left of it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Found] = loop.create_future()

    def settle(found: Found | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(found)  # type: ignore[arg-type]  # there is one where there is no error

    def run() -> None:
        found, error = None, None
        try:
            found = work()
        except BaseException as raised:  # noqa: BLE001 - the caller that waits gets it
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, found, error)

    threading.Thread(target=run, daemon=True).start()
    return await done
