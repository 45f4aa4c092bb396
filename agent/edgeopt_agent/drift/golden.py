"""The golden inputs, asked of the serving release at intervals and only while it has nothing else to do."""

import asyncio
import logging
from collections.abc import Callable

from edgeopt_agent.drift.watch import DriftWatch
from edgeopt_agent.workers.outcomes import WorkerError
from edgeopt_agent.workers.router import Router

log = logging.getLogger(__name__)
_LOOK_S = 1.0


async def ask_golden(router: Router, watch: DriftWatch, timeout_s: float, deploying: Callable[[], bool]) -> None:
    """Runs the golden inputs at intervals until cancelled, while no request waits and no deployment runs."""
    while True:
        await asyncio.sleep(watch.settings.golden_s)
        while router.waiting or deploying():
            await asyncio.sleep(_LOOK_S)
        worker = router.serving
        if worker is None or not worker.alive:
            continue
        try:
            golden = await worker.golden(timeout_s, quick=True)
        except WorkerError as error:  # its supervisor sees to that
            log.info(
                "Release %s of '%s': golden inputs not answered: %s", worker.release_id, worker.name, error.reason
            )
            continue
        watch.note_golden(worker.release_id, golden.problem or "")
