"""Tasks end although one cancellation was lost."""

import asyncio

from edgeopt_agent.tasks import end_tasks


async def _waits_on(first):
    await asyncio.wait_for(first, 60)
    await asyncio.Event().wait()


def test_a_task_ends_whose_wait_was_done_when_it_was_cancelled():
    """As a confirmation of the broker that arrives while the agent stops."""

    async def inside():
        first = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_waits_on(first))
        await asyncio.sleep(0)
        first.set_result(None)
        async with asyncio.timeout(30):
            await end_tasks([task])
        return task.done()

    assert asyncio.run(inside())


def test_errors_of_tasks_do_not_keep_others_from_ending():
    async def fails():
        raise OSError("gone")

    async def inside():
        tasks = [asyncio.create_task(fails()), asyncio.create_task(asyncio.Event().wait())]
        await asyncio.sleep(0)
        await end_tasks(tasks)
        return [task.done() for task in tasks]

    assert asyncio.run(inside()) == [True, True]
