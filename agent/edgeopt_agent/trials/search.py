"""A search that a fleet orders: fetches model and data, searches as a client would here, uploads the bundle."""

import asyncio
import contextlib
import dataclasses
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError, printable
from edgeopt.events import Event, Progress
from edgeopt.fleet.mqtt_documents import DesiredBundle, SearchOrder, SearchReport
from edgeopt_agent.bundle_urls import shown
from edgeopt_agent.control.desired import checked, deployment_record
from edgeopt_agent.data_dir import remove, write_whole
from edgeopt_agent.deployments.download import Link, TransferError
from edgeopt_agent.deployments.fetch import fetch, retry_delay_s
from edgeopt_agent.deployments.receive import archive_of
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.site import Work
from edgeopt_agent.deployments.slots import Slots
from edgeopt_agent.settings import Settings
from edgeopt_agent.tasks import end_tasks
from edgeopt_agent.threads import in_thread
from edgeopt_agent.trials.trials import Trial, Trials, check_allowed
from edgeopt_agent.trials.upload import check_place, put
from edgeopt_agent.trials.way import OwnWay

if TYPE_CHECKING:
    from edgeopt.commands.optimize import OptimizeSourceRequest

log = logging.getLogger(__name__)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_LONGEST_S = 86_400.0
_SLACK_S = 600.0
"""The time of a search beyond twice its limit: a slow device needs long to start and to finish."""
_LONGEST_REASON = 300
replace = msgspec.structs.replace
Found = TypeVar("Found")


class Searches:
    """The search that runs, and the outcome of the last one, which a restart keeps."""

    def __init__(self, slots: Slots, trials: Trials) -> None:
        self._slots = slots
        self._trials = trials
        self._data = slots.first.site.data
        self._changed: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None
        self._ended_by = ""
        """Who cancelled it; empty while nobody has."""
        self._writing = asyncio.Lock()
        self.last: SearchReport | None = None

    async def load(self, changed: Callable[[], None]) -> None:
        """Reads the outcome of the last search; `changed` is called with each change."""
        self._changed = changed
        self.last = await asyncio.to_thread(_read, self._data.search)
        await asyncio.to_thread(remove, self._data.search_files.root)
        if self.last is not None and self.last.state == "running":
            log.warning("Search %s was lost by a restart of the agent.", self.last.id)
            await self._publish(
                replace(self.last, state="failed", code="restarted", reason="the agent was restarted meanwhile")
            )

    async def begin(self, order: SearchOrder, ordered_by: str) -> SearchReport:
        """Begins a search; the same one again gets its report. Raises RefusedError for what is not allowed."""
        if self.last is not None and self.last.id == order.id:
            return self.last
        settings = self._slots.first.site.settings
        check_allowed(settings)
        _check(order)
        check_place(order.put, settings.put_to)
        named = [(order.model, order.model_digest), *([(order.data, order.data_digest)] if order.data else [])]
        files = [
            deployment_record(checked(DesiredBundle(bundle=url, digest=digest)), settings) for url, digest in named
        ]
        if self._task is not None:
            raise RefusedError(
                409, "busy", "Another search runs on this device.", "Cancel it, or wait for its end."
            )
        log.info("Search %s of %s begins. Ordered by %s.", order.id, shown(order.model), ordered_by)
        self._ended_by = ""
        report = SearchReport(id=order.id, state="running", time_s=time.time(), step="fetching")
        self._task = asyncio.create_task(self._run(order, files), name="search")
        await self._publish(report)
        return report

    async def cancel(self, search: str, ordered_by: str) -> SearchReport:
        """Ends a search; one that has ended stays as it is."""
        if self.last is None or self.last.id != search:
            sentence = f"There is no search '{printable(search)[:80]}'."
            raise RefusedError(404, "not-found", sentence, "See `search` in the report of the device.")
        if self._task is not None:
            self._ended_by = ordered_by
            self._task.cancel()
            await asyncio.wait((self._task,))
        return self.last

    async def stop(self) -> None:
        """Ends the search with the agent, whose next start says so."""
        if self._task is not None:
            await end_tasks((self._task,))

    async def _run(self, order: SearchOrder, files: list[Record]) -> None:
        report = SearchReport(id=order.id, state="failed", time_s=0.0)
        try:
            report = await self._searched(order, files)
        except asyncio.CancelledError:
            if not self._ended_by:  # the agent stops
                raise
            report = replace(report, code="cancelled", reason=f"cancelled by {self._ended_by}")
        except (EdgeoptError, TransferError, OSError) as error:
            known = error if isinstance(error, EdgeoptError) else None
            report = replace(
                report,
                code="failed" if known is None else known.code,
                reason=printable(str(error))[:_LONGEST_REASON],
                hint="" if known is None else printable(known.hint)[:_LONGEST_REASON],
            )
        except Exception:
            log.exception("Search %s failed.", order.id)
            report = replace(report, code="failed", reason="an error in the agent: see its log")
        finally:
            self._task = None
            remove(self._data.search_files.root)
        log.log(
            logging.INFO if report.state == "done" else logging.WARNING,
            "Search %s: %s.",
            *(order.id, report.summary if report.state == "done" else f"failed: {report.reason.rstrip('.')}"),
        )
        await self._publish(replace(report, time_s=time.time()))

    async def _searched(self, order: SearchOrder, files: list[Record]) -> SearchReport:
        from edgeopt.commands.optimize import OptimizeSourceRequest
        from edgeopt.fleet.rollout_bundle import read_file, speedup_in

        settings = self._slots.first.site.settings
        folder = self._data.search_files
        await asyncio.to_thread(folder.partial.mkdir, parents=True, exist_ok=True, mode=0o700)
        fetched = await _in_time(self._fetched(files), settings.fetch_timeout_s, "Fetching the files")
        out = folder.root / "found.edgeopt"
        request = OptimizeSourceRequest(
            model=fetched[0],
            data=fetched[1] if order.data else None,
            out=out,
            single_file=True,
            time_limit_s=order.time_limit_s,
            floor=order.floor or None,
            metric=order.metric or None,
        )
        await _in_time(self._measured(request), 2 * order.time_limit_s + _SLACK_S, "The search")
        bundle, deployment = await in_thread(lambda: read_file(out, "the bundle that was found"))
        await self._step("uploading")
        await _in_time(_uploaded(out, order.put, settings), settings.fetch_timeout_s, "The upload")
        speedup, low, high = speedup_in(deployment)
        return SearchReport(
            id=order.id,
            state="done",
            time_s=time.time(),
            bundle=order.put,
            digest=bundle.digest,
            summary=printable(deployment.summary)[:_LONGEST_REASON],
            speedup=speedup,
            speedup_low=low,
            speedup_high=high,
        )

    async def _fetched(self, files: list[Record]) -> list[Path]:
        """Fetches the files under names of their own, which bundles are named after."""
        site = dataclasses.replace(self._slots.first.site, data=self._data.search_files)
        found = []
        for number, record in enumerate(files):
            work = Work(record)
            await fetch(site, work)
            place = site.data.root / str(number) / _file_name(record.name)
            await asyncio.to_thread(place.parent.mkdir)
            await asyncio.to_thread(archive_of(site, work).replace, place)
            found.append(place)
        return found

    async def _measured(self, request: "OptimizeSourceRequest") -> None:
        """Searches in a session like that of a client elsewhere: with its limits, and beside what serves."""
        from edgeopt.remote.command import run_over
        from edgeopt.remote.link import Link as Session

        loop = asyncio.get_running_loop()
        steps: set[asyncio.Task[None]] = set()

        def show(phase: str) -> None:
            steps.add(task := asyncio.ensure_future(self._step(phase)))
            task.add_done_callback(steps.discard)

        def emit(event: Event) -> None:
            if isinstance(event, Progress):
                with contextlib.suppress(RuntimeError):  # the agent has ended
                    loop.call_soon_threadsafe(show, event.phase)

        trial = await self._trials.begin(beside_serving=True, probes=False)
        way = OwnWay(trial)
        try:

            def work() -> None:
                with contextlib.closing(Session(way, "")) as session:
                    run_over(session, "optimize", request, frozenset({"out"}), emit)

            await in_thread(work)
        finally:
            # To its end, however often it is cancelled: the session is the only one.
            await asyncio.shield(self._let_go(trial, way, steps))

    async def _let_go(self, trial: Trial, way: OwnWay, steps: Iterable[asyncio.Task[None]]) -> None:
        await end_tasks(steps)
        await way.leave()
        await self._trials.end(trial)

    async def _step(self, step: str) -> None:
        if self.last is not None and self.last.state == "running" and self.last.step != step:
            await self._publish(replace(self.last, step=printable(step)[:_LONGEST_REASON], time_s=time.time()))

    async def _publish(self, report: SearchReport) -> None:
        before, self.last = self.last, report
        self._changed()
        if before is not None and (before.id, before.state) == (report.id, report.state):
            return
        async with self._writing:
            try:
                text = json.dumps(msgspec.to_builtins(self.last))
                await asyncio.to_thread(write_whole, self._data.search, text)
            except (EdgeoptError, OSError) as error:
                log.warning("The outcome of the search could not be kept for the next start: %s", error)


def _check(order: SearchOrder) -> None:
    """Raises RefusedError for an order that no device can follow."""
    if not _ID.fullmatch(order.id):
        message = "The search has no id of letters, digits, '.', '_' and '-'."
        raise RefusedError(400, "bad-document", message, "Give each search an id of its own.")
    if not 0 < order.time_limit_s <= _LONGEST_S:
        message = f"The time limit of a search must be from 0 to {_LONGEST_S:.0f} s."
        raise RefusedError(400, "bad-document", message, "Change time_limit_s.")
    for url, kind in ((order.model, ".onnx"), (order.data, ".npz")):
        # Other kinds of files could hold code.
        if url and not url.partition("?")[0].endswith(kind):
            message = f"{printable(shown(url)[:200])} is no {kind} file."
            raise RefusedError(
                400, "bad-document", message, "A fleet's search takes an ONNX file and an .npz file."
            )


def _file_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".-_")
    return re.sub(r"\.{2,}", ".", plain)


async def _in_time(work: Awaitable[Found], limit_s: float, what: str) -> Found:
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise RefusedError(504, "too-slow", f"{what} took more than {limit_s:.0f} s.") from None


async def _uploaded(file: Path, url: str, settings: Settings) -> None:
    """Uploads the file; what may pass is tried again."""
    failures = 0
    while True:
        link = Link()
        try:
            return await in_thread(partial(put, file, url, settings.put_to, settings.body_timeout_s, link))
        except TransferError as error:
            failures += 1
            delay_s = retry_delay_s(settings, failures)
            log.warning("The upload failed: %s; next try in %.1f s.", error, delay_s)
        finally:
            link.close()
        await asyncio.sleep(delay_s)


def _read(file: Path) -> SearchReport | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=thread_safe(SearchReport))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
