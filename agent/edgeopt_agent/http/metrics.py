"""Figures for Prometheus at `/metrics`, read when asked for; the names are Triton's where it has one."""

import os
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily, UntypedMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from edgeopt.hw.load import LoadSampler, process_memory_bytes
from edgeopt_agent.workers.router import Router
from edgeopt_agent.workers.totals import Totals

_LABELS = ("model", "version")
_COUNTERS: tuple[tuple[str, str, Callable[[Totals], float]], ...] = (
    ("nv_inference_request_success", "Requests that were answered", lambda t: t.successes),
    ("nv_inference_request_failure", "Requests that were not", lambda t: t.failures),
    ("nv_inference_count", "Inferences, each item of a batch counted", lambda t: t.rows),
    ("nv_inference_exec_count", "Runs of the model", lambda t: t.successes),
    (
        "nv_inference_request_duration_us",
        "Time from the request's arrival to its answer, in microseconds",
        lambda t: t.success_s * 1e6,
    ),
    (
        "nv_inference_queue_duration_us",
        "Time that requests waited for the worker, in microseconds",
        lambda t: t.queue_s * 1e6,
    ),
    (
        "nv_inference_compute_infer_duration_us",
        "Time that the model itself took, in microseconds",
        lambda t: t.compute_s * 1e6,
    ),
)


def routes(router: Router, state: Callable[[], str]) -> list[BaseRoute]:
    """`state` tells the state of the last deployment."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Agent(router, state))

    # A coroutine, because what it reads belongs to the event loop's thread.
    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    return [Route("/metrics", metrics)]


class _Agent(Collector):
    def __init__(self, router: Router, state: Callable[[], str]) -> None:
        self._router = router
        self._state = state
        self._load = LoadSampler()

    def collect(self) -> Iterable[Metric]:
        for name, text, value in _COUNTERS:
            # As a counter, the library would add "_total", which Triton's names do not have.
            family = UntypedMetricFamily(name, text, labels=_LABELS)
            for totals in self._router.totals.values():
                family.add_metric([totals.name, totals.release_id], value(totals))
            yield family
        pending = GaugeMetricFamily("nv_inference_pending_request_count", "Requests not answered yet")
        pending.add_metric([], self._router.waiting)
        yield pending
        yield from self._memory()
        yield from self._device()
        yield from self._deployment()

    def _memory(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("edgeopt_process_memory_bytes", "Resident memory", labels=["process"])
        worker = self._router.serving
        pids = {"agent": os.getpid(), **({"worker": worker.pid} if worker else {})}
        for process, pid in pids.items():
            size = process_memory_bytes(pid)
            if size is not None:
                family.add_metric([process], size)
        yield family

    def _device(self) -> Iterable[Metric]:
        sample = self._load.sample()
        yield from _gauge("edgeopt_device_memory_used_bytes", "Memory in use", sample.memory_used_bytes)
        yield from _gauge("edgeopt_device_memory_total_bytes", "Memory that is there", sample.memory_total_bytes)
        yield from _gauge("edgeopt_device_load_percent", "Load since the last scrape", sample.load_percent)
        yield from _gauge("edgeopt_device_clock_hz", "Mean clock of the cores", sample.clock_hz)
        yield from _gauge("edgeopt_device_temperature_c", "Hottest sensor of the chip", sample.temperature_c)

    def _deployment(self) -> Iterable[Metric]:
        labels = ["release", "state"]
        family = GaugeMetricFamily("edgeopt_deployment_state", "The state of the last deployment", labels=labels)
        worker = self._router.serving
        family.add_metric([worker.release_id if worker else "", self._state()], 1.0)
        yield family


def _gauge(name: str, text: str, value: float | None) -> Sequence[Metric]:
    """What is not known is left out, which is how Prometheus says that."""
    if value is None:
        return ()
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return (family,)
