"""The step of each state of a deployment, with its time limit, and what its errors mean."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Mapping

from edgeopt.errors import EdgeoptError, is_disk_full, no_room
from edgeopt_agent.deployments.fetch_layers import fetch_bundle
from edgeopt_agent.deployments.hook import hook_of
from edgeopt_agent.deployments.joint import Joint
from edgeopt_agent.deployments.probing import probe, wait_ready
from edgeopt_agent.deployments.receive import receive, stage, unpacked_of, verify
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.site import Outcome, Site, Work, title_of
from edgeopt_agent.deployments.soaking import soak
from edgeopt_agent.deployments.states import ROWS, Event, State
from edgeopt_agent.deployments.switching import roll_back, switch
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.outcomes import WorkerError

log = logging.getLogger(__name__)
Step = Callable[[Site, Work], Awaitable[Outcome]]
_DISK_ERRORS = frozenset({errno.EIO, errno.EROFS, errno.EPERM, errno.EACCES})
SERVES = frozenset({State.SWITCHING, State.SOAKING, State.ROLLING_BACK})
"""States in which the new release may be the one that serves."""


async def accept(site: Site, work: Work) -> Outcome:
    if work.joint is not None and work.record.source is None:  # the bundles of the others come first
        await work.joint.meet(site.model, State.STAGED)
    return Outcome(reason=work.record.reason)


STEPS: Mapping[State, Step] = {
    State.ACCEPTED: accept,
    State.RECEIVING: receive,
    State.FETCHING: fetch_bundle,
    State.VERIFYING: verify,
    State.STAGED: stage,
    State.PROBING: probe,
    State.READY: wait_ready,
    State.SWITCHING: switch,
    State.SOAKING: soak,
    State.ROLLING_BACK: roll_back,
}


async def run_step(site: Site, work: Work) -> tuple[Outcome, bool]:
    """Runs the step of the present state; returns its outcome, and whether a failure is the bundle's fault."""
    state = work.record.state
    limit_s = float(getattr(site.settings, ROWS[state].limit))
    if state is State.SOAKING:
        limit_s += work.record.soak_s + site.settings.soak_compare_s
        if hook_of(site.data).exists():
            limit_s += site.settings.hook_timeout_s
    if work.joint is not None:
        limit_s += _wait_s(site.settings, work.joint, state)
    try:
        async with asyncio.timeout(limit_s):
            return await _unless_stopped(work, STEPS[state](site, work)), False
    except TimeoutError:
        late = f"{state.replace('_', ' ').capitalize()} took longer than its limit of {limit_s:g} s."
        late = f"{late} {work.last_failure}".rstrip()
        # A soak may just have had too few requests.
        return Outcome(Event.FAILURE, late), state is State.PROBING
    except StepError as error:
        return Outcome(Event.FAILURE, error.message), error.fault
    except EdgeoptError as error:
        # The sender has no such folders.
        unpacked = unpacked_of(site, work)
        reason = error.message.replace(f"'{unpacked.name}'", work.bundle)
        reason = reason.replace(f"{unpacked}/", "").replace(f"{unpacked.parent}/", "")
        return Outcome(Event.FAILURE, reason), isinstance(error, WorkerError)
    except OSError as error:
        work.disk_failure = error if is_disk_full(error) or error.errno in _DISK_ERRORS else None
        if is_disk_full(error):
            return Outcome(Event.FAILURE, no_room(site.data.root).message), False
        if work.disk_failure is not None:
            message = f"The disk of the device failed at '{site.data.root}': {error.strerror}."
            return Outcome(Event.FAILURE, message), False
        return Outcome(Event.FAILURE, f"The device's disk or network failed: {error}."), False
    except Exception as error:
        log.exception("%s failed while %s.", title_of(site, work.record), state)
        return Outcome(Event.FAILURE, f"A bug in the agent ({type(error).__name__}: {error})."), False


def _wait_s(settings: Settings, joint: Joint, state: State) -> float:
    """Returns how long the other models of an order may need before they have come as far."""
    if state in {State.ACCEPTED, State.STAGED}:
        return settings.fetch_timeout_s + settings.verify_timeout_s
    if state in {State.PROBING, State.READY}:
        return joint.size * settings.probe_timeout_s
    return joint.record.soak_s + settings.soak_compare_s if state is State.SOAKING else 0.0


async def _unless_stopped(work: Work, step: Awaitable[Outcome]) -> Outcome:
    """Runs a step unless it is stopped; a release that serves is stopped by its soak, a rollback never."""
    if work.record.state in SERVES:
        return await step
    doing, stopped = asyncio.ensure_future(step), asyncio.ensure_future(work.stop_requested.wait())
    try:
        await asyncio.wait((doing, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise StepError(work.stop_reason, fault=False)
        return doing.result()
    finally:
        doing.cancel()
        stopped.cancel()
        await asyncio.gather(doing, stopped, return_exceptions=True)
