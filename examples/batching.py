"""Many requests at a time with asyncio: one session that joins them into batches, or a pool of processes.

    python batching.py model.edgeopt data.npz
    python batching.py model.edgeopt data.npz --workers 2

`data.npz` has one array per input, samples along the first axis, as for `edgeopt optimize`.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

import numpy as np

import edgeopt

Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], Awaitable[Mapping[str, np.ndarray]]]


async def answer_all(run: Run, samples: list[Feeds], at_once: int) -> list[Mapping[str, np.ndarray]]:
    """Keeps up to `at_once` requests in flight, as a server with as many clients does."""
    free = asyncio.Semaphore(at_once)

    async def answer(feeds: Feeds) -> Mapping[str, np.ndarray]:
        async with free:
            return await run(feeds)

    return await asyncio.gather(*(answer(feeds) for feeds in samples))


async def in_batches(bundle: str, samples: list[Feeds], at_once: int) -> list[Mapping[str, np.ndarray]]:
    """Joins up to 8 requests that arrive within 2 ms, if that is faster on this device."""
    batching = edgeopt.Batching(max_size=8, max_delay_us=2000)
    with edgeopt.load(bundle, batching=batching) as session:
        if session.batch_trial is not None:
            print("batches:", session.batch_trial.reason)
        return await answer_all(session.run_async, samples, at_once)


async def in_processes(
    bundle: str, samples: list[Feeds], at_once: int, workers: int
) -> list[Mapping[str, np.ndarray]]:
    """Sends each request to the process that is expected to answer first."""
    members = [edgeopt.load(bundle, isolate=True) for _ in range(workers)]
    with edgeopt.Pool(members, queue_size=at_once) as pool:
        answers = await answer_all(pool.run_async, samples, at_once)
        for name, member in pool.statistics().members.items():
            print(f"worker {name}: {member.requests} requests")
        return answers


def main() -> None:
    parser = argparse.ArgumentParser(description="Answers many requests at a time.")
    parser.add_argument("bundle")
    parser.add_argument("data")
    parser.add_argument("--at-once", type=int, default=16, help="requests in flight")
    parser.add_argument("--workers", type=int, help="processes, instead of one session with batches")
    arguments = parser.parse_args()
    with np.load(arguments.data) as data:
        arrays = dict(data)
    samples = [dict(zip(arrays, rows, strict=True)) for rows in zip(*arrays.values(), strict=True)]
    start = time.perf_counter()
    if arguments.workers:
        work = in_processes(arguments.bundle, samples, arguments.at_once, arguments.workers)
    else:
        work = in_batches(arguments.bundle, samples, arguments.at_once)
    answers = asyncio.run(work)
    print(f"{len(answers)} answers in {time.perf_counter() - start:.2f} s, with loading")


if __name__ == "__main__":
    main()
