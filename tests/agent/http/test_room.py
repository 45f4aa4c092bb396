import asyncio
import threading

from edgeopt_agent.http import plain


def test_memory_of_large_bodies_is_returned_outside_the_event_loop(monkeypatch):
    threads = []
    monkeypatch.setattr(plain, "GIVE_BACK_AFTER_S", 0.01)
    monkeypatch.setattr(plain, "give_back", lambda: threads.append(threading.current_thread()))

    async def use():
        room = plain.Room(1 << 30)
        room.take(plain.WORTH_GIVING_BACK_BYTES + 1)
        room.give_back(plain.WORTH_GIVING_BACK_BYTES + 1)
        async with asyncio.timeout(20):
            while not threads:
                await asyncio.sleep(0.01)

    asyncio.run(use())
    assert threads != [threading.main_thread()]
