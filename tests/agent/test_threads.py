import asyncio
import threading
import time

import pytest

from edgeopt_agent.threads import in_thread


def test_it_gives_what_the_work_gives_or_raises():
    assert asyncio.run(in_thread(lambda: 7)) == 7
    with pytest.raises(OSError, match="full"):
        asyncio.run(in_thread(_fail))


def _fail():
    raise OSError("full")


def test_the_end_of_a_loop_does_not_wait_for_it():
    gate = threading.Event()

    async def begin():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(lambda: gate.wait(120)), 0.05)

    start = time.monotonic()
    asyncio.run(begin())
    assert time.monotonic() - start < 60
    gate.set()
