"""SOAKING: the new release serves under watch, with its predecessor ready to take over again."""

import asyncio
import logging
import math
import time
from collections import deque
from dataclasses import dataclass
from statistics import median

from edgeopt import units
from edgeopt.bundle.deployment import Deployment
from edgeopt.errors import EdgeoptError
from edgeopt.hw.load import process_memory_bytes
from edgeopt_agent.deployments.hook import ask_hook
from edgeopt_agent.deployments.observed import ReleaseTraffic
from edgeopt_agent.deployments.probing import judge_latency, start_checked
from edgeopt_agent.deployments.record import Detail, Soaked
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.site import Outcome, Site, Work, first_of, name_of, release_title
from edgeopt_agent.deployments.states import State
from edgeopt_agent.deployments.switching import stop_quietly, switch
from edgeopt_agent.releases import deployment_of
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.frames import Golden
from edgeopt_agent.workers.outcomes import WorkerDied, WorkerError
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.shadow import Shadow

log = logging.getLogger(__name__)

JUDGED_RUNS = 5
"""Runs in a median: one slow run is noise."""

SPREADS = 2
"""Standard deviations within which a share of few requests may differ from that of many."""

AGREEMENT_LEEWAY_DB = 3.0
"""The requests of clients are not the samples that a floor was proved on."""

REST_FACTOR = 10
"""A slow model spends a tenth of its time on golden inputs, not all of it."""


async def soak(site: Site, work: Work) -> Outcome:
    if work.joint is not None:
        await work.joint.meet(site.model, State.SOAKING)
    if work.record.kind == "remove":
        return await _others_soaked(site, work)
    site.router.old_name = name_of(site, work.record.old)
    site.router.shadow = shadow = Shadow()
    try:
        return await _soaked(site, work, shadow)
    finally:
        site.router.old_name, site.router.shadow = "", None
        shadow.stop()


async def _others_soaked(site: Site, work: Work) -> Outcome:
    joint = work.joint
    assert joint is not None  # noqa: S101 - models are removed in orders only
    while not await joint.agree(site.model):
        if work.stop_requested.is_set():
            raise StepError(work.stop_reason, fault=False)
        await first_of((joint.decided, work.stop_requested), None)
    return Outcome(reason="all other models of the order have proved themselves")


async def _soaked(site: Site, work: Work, shadow: Shadow) -> Outcome:
    record, settings = work.record, site.settings
    if work.candidate is None:  # the agent started again in the middle
        await switch(site, work)
    worker = work.candidate
    assert worker is not None  # noqa: S101 - the switch has just started it
    traffic = site.observed.of(record.release)
    limits = _Limits(site, work, worker)
    own_ms: deque[float] = deque(maxlen=JUDGED_RUNS)
    before = record.soaked
    traffic.errors += before.errors
    traffic.requests += before.requests
    proved: Outcome | None = None
    own_requests, samples, golden_s, begin = 0, 1, 0.0, time.monotonic() - before.elapsed_s
    while True:
        elapsed_s = time.monotonic() - begin
        requests, agreement = traffic.requests + own_requests, _agreement(shadow)
        _note_progress(work, Soaked(elapsed_s, requests, traffic.errors), agreement)
        max_s = record.soak_s + (settings.soak_compare_s if limits.lacks_comparison(shadow) else 0.0)
        ended = elapsed_s >= max_s and not work.stop_requested.is_set()
        if worker.ended_by_request():
            limits.judge_end(worker)
            worker = await _started_again(site, work, worker)
            limits.follow(worker)
        if proved is None and ended and requests >= record.soak_requests:
            limits.judge(traffic, shadow, own_requests, ended=True)
            if record.kind == "deploy":  # nothing blocks the rollback
                await _ask_hook(site, work, worker)
                limits.judge(traffic, shadow, own_requests, ended=True)
            proved = _proof(work, agreement, limits.lacks_comparison(shadow))
        if proved is not None and (work.joint is None or await work.joint.agree(site.model)):
            return proved
        rounds = math.ceil((record.soak_requests - requests) / samples)
        pause_s = _rest_s(settings, golden_s, max_s - elapsed_s if proved is None else math.inf, rounds)
        others = () if work.joint is None else (work.joint.decided,)
        await first_of((worker.ended, work.stop_requested, traffic.failed, *others), pause_s)
        if work.joint is not None and work.joint.committed:
            continue
        _check_going_on(work, worker)
        limits.judge(traffic, shadow, own_requests)
        shadow.sample_next()
        asked_at = time.monotonic()
        golden = await _own_request(worker, settings)
        if golden is None:
            continue
        golden_s = time.monotonic() - asked_at
        own_requests, samples = own_requests + golden.samples, golden.samples
        own_ms.append(golden.latency_ms)
        if limits.too_slow(own_ms) and await _predecessor_is_slow_too(site, record.old):
            own_ms.clear()
        limits.judge_own(own_ms)
        limits.judge_memory(traffic)


def _proof(work: Work, agreement: Detail, lacks_comparison: bool) -> Outcome:
    """Returns the outcome of a soak that went well."""
    record, soaked = work.record, work.soaked
    detail = {**record.detail, "soak_requests": soaked.requests, "soak_errors": soaked.errors, **agreement}
    soaks = record.soak_s or record.soak_requests
    reason = f"{soaked.requests} requests in {soaked.elapsed_s:.3g} s" if soaks else "no soak"
    if lacks_comparison:
        reason += "; no request was compared with the release before it"
    return Outcome(reason=reason, changes={"detail": detail})


def _note_progress(work: Work, soaked: Soaked, agreement: Detail) -> None:
    record, work.soaked = work.record, soaked
    work.progress = {"elapsed_s": round(soaked.elapsed_s, 3), "soak_s": record.soak_s}
    work.progress |= {"requests": soaked.requests, "soak_requests": record.soak_requests}
    work.progress |= {"errors": soaked.errors, **agreement}


async def _own_request(worker: Worker, settings: Settings) -> Golden | None:
    """Runs the golden inputs of the release; returns None if a client's request has ended its worker."""
    try:
        golden = await worker.golden(settings.request_timeout_s, quick=True)
    except WorkerDied:
        if worker.ended_by_request():
            return None
        raise
    if golden.problem:
        raise StepError(golden.problem)
    return golden


def _agreement(shadow: Shadow) -> Detail:
    """Returns the agreement of both releases over the requests that both answered so far."""
    if not shadow.compared:
        return {}
    detail: Detail = {"compared_requests": shadow.compared}
    if found_db := shadow.agreement_db().values():
        detail["agreement_db"] = round(min(found_db), 1)
    return detail


def _check_going_on(work: Work, worker: Worker) -> None:
    if work.stop_requested.is_set():
        raise StepError(work.stop_reason, fault=False)
    if worker.ended.is_set() and not worker.ended_by_request():
        raise StepError(f"Its worker {worker.how_it_ended()} during the soak.")


async def _started_again(site: Site, work: Work, ended: Worker) -> Worker:
    """Starts the release in a new process, after a client's request ended the one before."""
    title = release_title(site, ended.release_id)
    log.warning("%s: the worker %s and is started again.", title, ended.how_it_ended())
    if ended.ended_for_memory():
        await first_of((work.stop_requested,), site.memory_restarts.note(ended.release_id, site.settings))
    await stop_quietly(ended)
    work.candidate, _ = await start_checked(site, ended.release_id)
    site.router.restart(work.candidate)
    return work.candidate


async def _ask_hook(site: Site, work: Work, worker: Worker) -> None:
    """Asks the hook, unless the release or the deployment ends first."""
    asking, done = asyncio.create_task(ask_hook(site, work.record, work.soaked)), asyncio.Event()
    asking.add_done_callback(lambda _: done.set())
    try:
        await first_of((done, worker.ended, work.stop_requested), None)
        _check_going_on(work, worker)
        await asking
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def _rest_s(settings: Settings, golden_s: float, left_s: float, rounds: int) -> float:
    """Returns how long to wait for others' requests: less if they are too few, but at least half of the time."""
    rest_s = max(settings.self_request_s, golden_s * REST_FACTOR)
    if rounds > 0:
        return min(rest_s, max(left_s / rounds - golden_s, golden_s))
    return min(rest_s, max(left_s, 0.0))


async def _predecessor_is_slow_too(site: Site, old: str | None) -> bool:
    """Whether it is the machine that has become slow."""
    standby = site.router.standby
    if standby is None or standby.release_id != old or not standby.alive:
        return False
    try:
        golden = await standby.golden(site.settings.request_timeout_s, quick=True)
        judge_latency(site.settings, site.data.release(old), golden)
    except StepError:
        return True
    except WorkerError:
        return False
    return False


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Counts of a release's answers, and of those with NaN or infinity."""

    requests: int = 0
    nan: int = 0
    infinite: int = 0

    def __sub__(self, other: "_Numbers") -> "_Numbers":
        return _Numbers(self.requests - other.requests, self.nan - other.nan, self.infinite - other.infinite)


def _min_agreement_db(site: Site, old: str | None, new: Deployment) -> float | None:
    """Returns how well two releases of one model must agree, in dB, from the accuracy floors proved for both.

    None where they come of different models, which may answer as they like, or one of them has no floor.
    """
    try:
        before = deployment_of(site.data.release(old)) if old else None
    except EdgeoptError:
        before = None
    if before is None or before.source.sha256 != new.source.sha256:
        return None
    proofs = [each.evidence or each.predicted for each in (before, new)]
    floors = [proof.floor_db for proof in proofs if proof is not None and proof.floor_db > 0]
    if len(floors) < len(proofs):
        return None
    # At worst their errors add up.
    return -20 * math.log10(sum(10 ** (-floor / 20) for floor in floors)) - AGREEMENT_LEEWAY_DB


class _Limits:
    """The limits of a soaking release, derived from its bundle, its predecessor and its own beginning."""

    def __init__(self, site: Site, work: Work, worker: Worker) -> None:
        settings = site.settings
        record = work.record
        deployment = deployment_of(site.data.release(record.release))
        evidence = deployment.evidence
        old_p99 = site.observed.of(record.old).p99_ms() if record.old else None
        self._settings: Settings = settings
        self._totals = site.router.totals
        self._release, self._old = record.release, record.old
        self._before = self._numbers(record.release)  # it may have served before
        self._seen_requests = 0
        self._ends = 0
        # Nothing delays a rollback, and nothing is held back that was to have no soak.
        self._compares = record.kind == "deploy" and bool(record.soak_s or record.soak_requests)
        self._min_agreement_db = _min_agreement_db(site, record.old, deployment)
        self._max_own_ms = self._loosened(evidence.latency_ms) if evidence else None
        self._max_p99_ms = self._loosened(old_p99) if old_p99 is not None else None
        self.follow(worker)

    def follow(self, worker: Worker) -> None:
        """Judges the memory of another process of the release from here on."""
        self._worker = worker
        self._last_bytes = process_memory_bytes(worker.pid) or 0
        self._max_bytes = self._last_bytes * self._settings.memory_factor + self._settings.memory_slack_bytes

    def judge_end(self, worker: Worker) -> None:
        """Judges the ends by clients' requests as their failed requests: only different ones count."""
        self._ends += worker.counts
        if self._ends >= self._settings.judged_failures:
            raise StepError(
                f"Different requests ended its worker {self._ends} times during the soak; the last time it "
                f"{worker.how_it_ended()}.",
                fault=False,
            )

    def lacks_comparison(self, shadow: Shadow) -> bool:
        """Whether the answers should agree with those of the release before, and none has been compared."""
        return self._compares and self._min_agreement_db is not None and not shadow.compared

    def judge(self, traffic: ReleaseTraffic, shadow: Shadow, own_requests: int, ended: bool = False) -> None:
        self.judge_requests(traffic, own_requests)
        self._judge_numbers()
        self._judge_agreement(shadow, ended)

    def _judge_agreement(self, shadow: Shadow, ended: bool) -> None:
        """Compares the answers with the previous release's to the same requests; judges a few only at the end."""
        if shadow.not_finite > self._settings.error_share * shadow.compared:
            raise StepError(
                f"{shadow.not_finite} of {shadow.compared} answers contained NaN or infinity where the previous "
                "release returned numbers."
            )
        if self._min_agreement_db is None or shadow.compared < (1 if ended else JUDGED_RUNS):
            return
        for name, found_db in shadow.agreement_db().items():
            if found_db < self._min_agreement_db:
                raise StepError(
                    f"Its output '{name}' agrees with that of the release before it to {found_db:.1f} dB, over "
                    f"{shadow.compared} requests; both were made of the same model, so at least "
                    f"{self._min_agreement_db:.1f} dB are expected."
                )

    def _judge_numbers(self) -> None:
        """Compares NaN and infinity with the old release; without one, NaN alone counts, like failed requests."""
        new = self._numbers(self._release) - self._before
        old = self._numbers(self._old) if self._old else _Numbers()
        if not new.requests:
            return
        if old.requests:
            odd, what = new.nan + new.infinite, "NaN or infinity"
            share = (old.nan + old.infinite) / old.requests
            allowed = share + SPREADS * math.sqrt(share * (1 - share) / new.requests)
            than = f"the release before it in {share:.2%}"
        else:
            odd, what, allowed = new.nan, "NaN", self._settings.error_share
            than = f"at most {allowed:.2%} are allowed"
        if odd > allowed * new.requests:
            raise StepError(
                f"{odd} of {new.requests} answers to finite inputs held {what} during the soak; {than}."
            )

    def _numbers(self, release: str) -> "_Numbers":
        totals = self._totals.get(release)
        return _Numbers() if totals is None else _Numbers(totals.answers, totals.nan, totals.infinite)

    def _loosened(self, latency_ms: float) -> float:
        return latency_ms * self._settings.latency_factor + self._settings.latency_slack_ms

    def judge_requests(self, traffic: ReleaseTraffic, own_requests: int = 0) -> None:
        """Judges clients' requests; raises StepError without fault of the bundle if too many fail or are slow."""
        traffic.failed.clear()
        settings = self._settings
        enough = (
            traffic.requests + own_requests >= settings.judged_requests
            and len(traffic.distinct_errors) >= settings.judged_failures
        )
        if enough and traffic.errors > settings.error_share * traffic.requests:
            raise StepError(
                f"{traffic.errors} of {traffic.requests} requests failed during the soak: {traffic.last_error}",
                fault=False,
            )
        p99_ms = traffic.p99_ms()
        if self._max_p99_ms is not None and p99_ms is not None and p99_ms > self._max_p99_ms:
            raise StepError(
                f"One request in a hundred takes longer than {units.milliseconds(p99_ms)}; measured by the "
                f"release before it, at most {units.milliseconds(self._max_p99_ms)} are allowed.",
                fault=False,
            )

    def too_slow(self, own_ms: "deque[float]") -> bool:
        return self._max_own_ms is not None and len(own_ms) == JUDGED_RUNS and median(own_ms) > self._max_own_ms

    def judge_own(self, own_ms: "deque[float]") -> None:
        if self._max_own_ms is not None and self.too_slow(own_ms):
            raise StepError(
                f"Its golden inputs take {units.milliseconds(median(own_ms))} during the soak; by its bundle, at "
                f"most {units.milliseconds(self._max_own_ms)} are allowed."
            )

    def judge_memory(self, traffic: ReleaseTraffic) -> None:
        """Judges what the release takes by itself: while clients ask, its growth may be that of their requests."""
        now_bytes = process_memory_bytes(self._worker.pid)
        if now_bytes is not None:
            if traffic.requests != self._seen_requests:
                self._max_bytes += max(0, now_bytes - self._last_bytes)
            self._seen_requests, self._last_bytes = traffic.requests, now_bytes
        if now_bytes is not None and now_bytes > self._max_bytes:
            raise StepError(
                f"Its worker grew to {units.size(now_bytes)} during the soak; at most "
                f"{units.size(self._max_bytes)} are allowed."
            )
