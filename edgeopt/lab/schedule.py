"""The order of the cells, by Dask distributed: one worker with one thread for each group of devices.

Each device is a resource of exactly one worker, so that no two cells measure on it, or on its host, at once.
"""

import queue
import secrets
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import MissingError, MissingExtraError, UsageError
from edgeopt.events import Progress
from edgeopt.lab.cell import CellRun, CellTask, CommandEnding, run_cell
from edgeopt.workspace import WORK, workspace

if TYPE_CHECKING:
    from distributed import Client, Future

Lanes = Sequence[Sequence[str]]
"""Groups of devices, by name, that never measure at the same time."""
_CONNECT_S = 10
_STOP_S = 15
_LOOK_S = 5.0
_RETURN_S = 60.0
"""Time that a lost worker has to come back, in seconds."""
_RETRIES = 1
"""Number of times that a cell is run again after its worker was lost."""
LOST = "worker-lost"


def run_cells(
    tasks: Sequence[CellTask],
    lanes: Lanes,
    scheduler: str | None,
    report: Callable[[CellTask, Progress], None],
    finish: Callable[[CellTask, CellRun], None],
) -> None:
    """Runs all cells and calls `finish` for each as it ends; an exception, such as Ctrl-C, stops all commands.

    `scheduler` is the address of a Dask scheduler whose workers offer the devices; None starts one here.
    """
    if not tasks:
        return
    run = f"edgeopt-lab-{secrets.token_hex(8)}"
    by_key = {task.key: task for task in tasks}
    happened: queue.SimpleQueue[tuple[CellTask, Progress | Future]] = queue.SimpleQueue()
    with _client(lanes, scheduler) as client:
        from distributed import Event, wait

        def note(event: tuple[float, dict[str, Any]]) -> None:
            happened.put((by_key[event[1]["key"]], msgspec.convert(event[1]["progress"], thread_safe(Progress))))

        stop = Event(run, client=client)
        client.subscribe_topic(run, note)
        futures = []
        for task in tasks:
            future = client.submit(
                _run_on_worker, task, run, key=f"{run}-{task.key}", resources={f"device:{task.device}": 1}
            )
            future.add_done_callback(lambda done, task=task: happened.put((task, done)))
            futures.append(future)
        waiting = dict(zip(by_key, futures, strict=True))
        lost_since: dict[str, float] = {}
        try:
            while waiting:
                try:
                    task, what = happened.get(timeout=_LOOK_S)
                except queue.Empty:
                    _give_up(client, [by_key[key] for key in waiting], waiting, lost_since)
                    continue
                if isinstance(what, Progress):
                    report(task, what)
                elif waiting.pop(task.key, None) is not None:
                    finish(task, _run_of(what))
        finally:
            if waiting:
                with suppress(OSError, TimeoutError):  # the scheduler is gone, or a command does not end
                    stop.set()
                    wait(list(waiting.values()), timeout=_STOP_S)
                for task in [by_key[key] for key, each in waiting.items() if each.status == "finished"]:
                    finish(task, _run_of(waiting[task.key]))  # a search may have ended before the comparison


def _give_up(
    client: "Client", tasks: list[CellTask], futures: dict[str, "Future"], lost_since: dict[str, float]
) -> None:
    """Cancels the cells of devices that no worker has offered for a while: Dask would wait for ever."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    offered = {resource for each in workers for resource in each["resources"]}
    for task in tasks:
        if f"device:{task.device}" in offered:
            lost_since.pop(task.device, None)
        elif time.monotonic() - lost_since.setdefault(task.device, time.monotonic()) > _RETURN_S:
            futures[task.key].cancel()


def _run_on_worker(task: CellTask, run: str) -> CellRun:
    from distributed import Event, get_worker

    worker, stop = get_worker(), Event(run)

    def is_stopped() -> bool:
        try:
            return bool(stop.is_set())
        except OSError:  # the scheduler is gone, and nobody waits for the cell any more
            return True

    def report(progress: Progress) -> None:
        worker.log_event(run, {"key": task.key, "progress": msgspec.to_builtins(progress)})

    return run_cell(task, is_stopped, report)


def _run_of(future: "Future") -> CellRun:
    try:
        found: CellRun = future.result()
        return found
    except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever Dask raises is the reason of this cell
        message = f"The worker of the device was lost ({type(error).__name__})."
        return CellRun((CommandEnding(0.0, 0.0, None, code=LOST, message=message, hint="Run the lab again."),))


def _is_address(scheduler: str) -> bool:
    try:
        return urlsplit(scheduler).port is not None
    except ValueError:  # a port that is no number
        return False


@contextmanager
def _client(lanes: Lanes, scheduler: str | None) -> "Iterator[Client]":
    try:
        import dask

        # Dask sets its level on import; its threads still log after the end of the cluster, and of `silence_logs`.
        with dask.config.set({"logging.distributed": "critical"}):
            from distributed import Client
    except ImportError:
        raise MissingExtraError("lab", "edgeopt lab") from None

    if scheduler is not None:
        if not _is_address(scheduler):
            raise UsageError(
                f"'{scheduler}' is not the address of a Dask scheduler.",
                "Write tcp://HOST:PORT, such as tcp://desktop:8786",
            )
        try:
            client = Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
        except OSError as error:
            raise MissingError(
                f"No Dask scheduler answers at '{scheduler}'.", "Start one: dask scheduler"
            ) from error
        with client:
            _check_workers(client, lanes, scheduler)
            yield client
        return
    with _cluster(lanes) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _cluster(lanes: Lanes) -> Iterator[Any]:
    import logging

    import dask
    from distributed import Scheduler, SpecCluster, Worker

    # Dask opens a port for HTTP even without a dashboard: on this machine alone, and with nothing behind it.
    place = "127.0.0.1:0"
    options = {"memory_limit": 0, "nthreads": 1, "dashboard": False, "dashboard_address": place}
    workers = {
        number: {"cls": Worker, "options": {**options, "resources": {f"device:{name}": 1 for name in lane}}}
        for number, lane in enumerate(lanes)
    }
    about = {
        "protocol": "inproc://",
        "dashboard": False,
        "dashboard_address": place,
        "allowed_failures": _RETRIES,
    }
    with (
        workspace(WORK) as scratch,
        dask.config.set(
            {
                "temporary-directory": str(scratch),
                "distributed.scheduler.http.routes": [],
                "distributed.worker.http.routes": [],
            }
        ),
        SpecCluster(
            workers=workers, scheduler={"cls": Scheduler, "options": about}, silence_logs=logging.CRITICAL
        ) as cluster,
    ):
        yield cluster


def _check_workers(client: "Client", lanes: Lanes, scheduler: str) -> None:
    """Raises MissingError unless exactly one worker with one thread offers the devices of each group."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    for lane in lanes:
        wanted = {f"device:{name}" for name in lane}
        offering = [each for each in workers if wanted & {*each["resources"]}]
        if len(offering) == 1 and wanted <= {*offering[0]["resources"]} and offering[0]["nthreads"] == 1:
            continue
        resources = " ".join(f"{name}=1" for name in sorted(wanted))
        raise MissingError(
            f"{'No worker' if not offering else 'No single worker with one thread'} of {scheduler} "
            f"offers: {', '.join(lane)}.",
            f'Start one: dask worker {scheduler} --nworkers 1 --nthreads 1 --resources "{resources}"',
        )
