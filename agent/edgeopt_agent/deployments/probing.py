"""PROBING: the candidate proves itself in a process of its own, while the old release goes on serving."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

from edgeopt import units
from edgeopt.bundle.manifest import check_manifest
from edgeopt.errors import BundleError
from edgeopt.hw.load import LoadSampler
from edgeopt_agent.data_dir import pointed
from edgeopt_agent.deployments.record import Detail
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.returning import SEND_AGAIN
from edgeopt_agent.deployments.site import Outcome, Site, Work, current, hold_serving
from edgeopt_agent.deployments.states import Event, State
from edgeopt_agent.releases import deployment_of, model_bytes
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.frames import Golden
from edgeopt_agent.workers.outcomes import WorkerError
from edgeopt_agent.workers.process import Worker

SLOW_TIMES = 3
"""Consecutive slow trials that reject a candidate: one may be slow because the machine was busy."""

LOADED_PER_FILE_BYTE = 2
"""A runtime holds the weights once as they lie in the file and once as its kernels want them."""


async def probe(site: Site, work: Work) -> Outcome:
    if work.joint is None:
        return await _probed(site, work)
    async with work.joint.probing:
        if work.record.kind == "remove":
            await hold_serving(site, work)
            return Outcome(Event.TOGETHER, changes=_way_back(site, ""))
        return replace(await _probed(site, work), event=Event.TOGETHER)


async def wait_ready(site: Site, work: Work) -> Outcome:
    """Waits until all models of the order have proved themselves."""
    assert work.joint is not None  # noqa: S101 - what stands alone does not come here
    await work.joint.meet(site.model, State.READY)
    return Outcome(reason="all models of the order are ready")


async def _probed(site: Site, work: Work) -> Outcome:
    record, folder = work.record, site.data.release(work.record.release)
    detail: Detail = dict(record.detail)
    gap_since = await _make_room(site, work, folder)
    work.candidate, golden = await start_checked(site, record.release)
    golden = await _quick_enough(site, work.candidate, folder, golden)
    detail |= {"accuracy_db": golden.accuracy_db, "latency_ms": golden.latency_ms}
    detail["resident_bytes"] = golden.resident_bytes
    reason = f"golden inputs answered with {golden.accuracy_db:.1f} dB in {units.milliseconds(golden.latency_ms)}"
    await hold_serving(site, work)
    if gap_since is not None:
        detail["gap_s"] = round(time.monotonic() - gap_since, 3)
        reason += f"; memory fits one worker only, so nothing served for {detail['gap_s']} s"
    return Outcome(reason=reason, changes={"detail": detail, **_way_back(site, record.release)})


def _way_back(site: Site, release: str) -> dict[str, object]:
    """Returns the releases to which a failure from now on leads back, as fields of the record."""
    serving, previous = current(site), pointed(site.data.previous)
    if serving == release:  # it did serve, and is deployed once more because it does not any longer
        return {"old": previous, "old_previous": None}
    return {"old": serving, "old_previous": previous}


async def start_checked(site: Site, release: str) -> tuple[Worker, Golden]:
    """Starts a worker for a release on the disk, and returns it once it has answered its golden inputs.

    Damaged files do not count against the bundle: they were intact when they arrived on the device.
    """
    folder = site.data.release(release)
    try:
        worker = await Worker.start(folder, release, site.settings)
    except WorkerError:
        try:
            await asyncio.to_thread(check_manifest, folder)
        except BundleError as damage:
            raise StepError(f"{damage.message} {SEND_AGAIN}", fault=False) from damage
        raise
    try:
        golden = await worker.golden(site.settings.probe_timeout_s)
        if golden.problem:
            raise StepError(golden.problem)
    except BaseException:
        await asyncio.shield(worker.stop(0.0))
        raise
    return worker, golden


async def _quick_enough(site: Site, worker: Worker, folder: Path, golden: Golden) -> Golden:
    for left in reversed(range(SLOW_TIMES)):
        try:
            judge_latency(site.settings, folder, golden)
        except StepError:
            if not left:
                raise
            await asyncio.sleep(site.settings.self_request_s)
            golden = await worker.golden(site.settings.probe_timeout_s)
        else:
            break
    return golden


def judge_latency(settings: Settings, folder: Path, golden: Golden) -> None:
    evidence = deployment_of(folder).evidence
    if evidence is None:
        return
    max_ms = evidence.latency_ms * settings.latency_factor + settings.latency_slack_ms
    if golden.latency_ms > max_ms:
        raise StepError(
            f"It takes {units.milliseconds(golden.latency_ms)} here; its bundle says "
            f"{units.milliseconds(evidence.latency_ms)}, and at most {units.milliseconds(max_ms)} are allowed."
        )


async def _make_room(site: Site, work: Work, folder: Path) -> float | None:
    """Stops the old worker where memory does not hold two; since when nothing serves, or None."""
    needed = (
        LOADED_PER_FILE_BYTE * await asyncio.to_thread(model_bytes, folder) + site.settings.memory_reserve_bytes
    )
    free = free_memory_bytes()
    if free is None or free >= needed or site.router.serving is None:
        return None
    await hold_serving(site, work)
    since = time.monotonic()
    site.problem = "Memory fits one worker only, so the old one stops before the new one starts."
    old = site.router.switch(None, keep_old=False)
    if old is not None:
        await old.stop(site.settings.request_timeout_s)
    return since


def free_memory_bytes() -> int | None:
    sample = LoadSampler().sample()
    if sample.memory_total_bytes is None or sample.memory_used_bytes is None:
        return None
    return sample.memory_total_bytes - sample.memory_used_bytes
