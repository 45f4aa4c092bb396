"""Figures for Prometheus at `/metrics`, read when asked for; the names are Triton's where it has one."""

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from edgeopt.hw.load import LoadSampler, process_memory_bytes
from edgeopt_agent.http.table import METRICS_TYPE
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.router import Router
from edgeopt_agent.workers.totals import BUCKETS_MS, REASONS, Totals

_LABELS = ("model", "version")
_COUNTERS: tuple[tuple[str, str, Callable[[Totals], float]], ...] = (
    ("nv_inference_request_success", "Requests that were answered", lambda t: t.successes),
    ("nv_inference_count", "Inferences, each item of a batch counted", lambda t: t.rows),
    ("nv_inference_exec_count", "Runs of the model", lambda t: t.executions),
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
    (
        "edgeopt_processing_duration_us",
        "Time that pre- and postprocessing took, in microseconds",
        lambda t: t.processing_s * 1e6,
    ),
    ("edgeopt_prompt_tokens", "Tokens of prompts", lambda t: t.prompt_tokens),
    ("edgeopt_generated_tokens", "Tokens that were generated", lambda t: t.generated_tokens),
    (
        "edgeopt_decode_duration_us",
        "Time that generated tokens took, without the first one of each text, in microseconds",
        lambda t: t.decode_s * 1e6,
    ),
    ("edgeopt_worker_hangs", "Workers killed because they did not answer", lambda t: t.hangs),
    ("edgeopt_worker_crashes", "Workers that ended by themselves", lambda t: t.crashes),
    (
        "edgeopt_worker_memory_restarts",
        "Workers that ended because requests made them take too much memory",
        lambda t: t.memory_restarts,
    ),
)


def routes(models: Models, state: Callable[[Router], str]) -> list[BaseRoute]:
    """`state` tells the state of the last deployment of each model."""
    figures = Figures(models, state)

    # A coroutine, because what it reads belongs to the event loop's thread.
    async def metrics(_request: Request) -> Response:
        return Response(_exposition(figures.collect()), headers={"content-type": METRICS_TYPE})

    return [Route("/metrics", metrics)]


class Figures:
    """The metrics of one reader: load is measured since that reader's last request."""

    def __init__(self, models: Models, state: Callable[[Router], str]) -> None:
        self._models = models
        self._state = state
        self._load = LoadSampler()

    def collect(self) -> Iterable[Metric]:
        for name, text, value in _COUNTERS:
            family = Metric(name, text, "counter")
            for totals in self._models.totals():
                family.add_sample(name, _labels(totals), value(totals))
            yield family
        yield self._failures()
        text = "Time from the request's arrival to its answer, in milliseconds"
        yield self._histogram(
            "nv_inference_first_response_histogram_ms", text, lambda t: (t.latencies, t.success_s)
        )
        text = "Time from the request's arrival to the first token of its text, in milliseconds"
        yield self._histogram(
            "edgeopt_first_token_histogram_ms", text, lambda t: (t.first_tokens, t.first_token_s)
        )
        yield from self._text()
        pending = GaugeMetricFamily(
            "nv_inference_pending_request_count", "Requests not answered yet", labels=_LABELS
        )
        for router in self._models.routers:
            if (worker := router.serving) is not None:
                pending.add_metric([worker.name, worker.release_id], router.waiting)
        yield pending
        yield from self._memory()
        yield from self._device()
        yield from self._deployment()
        yield from self._drift()

    def _failures(self) -> Metric:
        family = Metric("nv_inference_request_failure", "Requests that were not answered, by reason", "counter")
        for totals in self._models.totals():
            for reason in REASONS:
                family.add_sample(family.name, {**_labels(totals), "reason": reason}, totals.failed[reason])
        return family

    def _histogram(self, name: str, text: str, values: Callable[[Totals], tuple[list[int], float]]) -> Metric:
        """Returns a histogram of times; `values` are the counts of the buckets, and the sum in seconds."""
        family = Metric(name, text, "histogram")
        for totals in self._models.totals():
            labels = _labels(totals)
            counts, sum_s = values(totals)
            limits = [*(f"{limit:g}" for limit in BUCKETS_MS), "+Inf"]
            for limit, count in zip(limits, accumulate(counts), strict=True):
                family.add_sample(f"{family.name}_bucket", {**labels, "le": limit}, count)
            family.add_sample(f"{family.name}_count", labels, sum(counts))
            family.add_sample(f"{family.name}_sum", labels, sum_s * 1e3)
        return family

    def _text(self) -> Iterable[Metric]:
        speed = GaugeMetricFamily(
            "edgeopt_tokens_per_second", "Speed of the last text after its first token", labels=_LABELS
        )
        queue = GaugeMetricFamily(
            "edgeopt_generation_queue_length", "Requests for text that wait for their turn", labels=_LABELS
        )
        for totals in self._models.totals():
            if totals.tokens_per_s is not None:
                speed.add_metric([totals.name, totals.release_id], totals.tokens_per_s)
        for router in self._models.routers:
            if (worker := router.serving) is not None and worker.generates_text:
                queue.add_metric([worker.name, worker.release_id], router.waiting_for_text)
        yield from (each for each in (speed, queue) if each.samples)

    def _memory(self) -> Iterable[Metric]:
        family = Metric("edgeopt_process_memory_bytes", "Resident memory", "gauge")
        pids: list[tuple[dict[str, str], int]] = [({"process": "agent"}, os.getpid())]
        pids += [({"process": "worker", "model": worker.name}, worker.pid) for worker in self._models.workers()]
        for labels, pid in pids:
            size = process_memory_bytes(pid)
            if size is not None:
                family.add_sample(family.name, labels, size)
        yield family

    def _device(self) -> Iterable[Metric]:
        sample = self._load.sample()
        yield from _gauge("edgeopt_device_memory_used_bytes", "Memory in use", sample.memory_used_bytes)
        yield from _gauge("edgeopt_device_memory_total_bytes", "Memory that is there", sample.memory_total_bytes)
        yield from _gauge("edgeopt_device_load_percent", "Load since the last scrape", sample.load_percent)
        yield from _gauge("edgeopt_device_clock_hz", "Mean clock of the cores", sample.clock_hz)
        yield from _gauge("edgeopt_device_temperature_c", "Hottest sensor of the chip", sample.temperature_c)

    def _drift(self) -> Iterable[Metric]:
        alarm = GaugeMetricFamily(
            "edgeopt_drift_alarm", "Whether requests or answers have changed", labels=_LABELS
        )
        text = "The largest change of a statistic, 1 being the alarm"
        score = GaugeMetricFamily("edgeopt_drift_score", text, labels=_LABELS)
        for router in self._models.routers:
            if (watch := router.drift) is not None and (worker := router.serving) is not None:
                watch.follow(worker.release_id)
                alarm.add_metric([worker.name, worker.release_id], watch.alarm is not None)
                score.add_metric([worker.name, worker.release_id], watch.score)
        yield from (each for each in (alarm, score) if each.samples)

    def _deployment(self) -> Iterable[Metric]:
        labels = [*_LABELS, "state"]
        family = GaugeMetricFamily("edgeopt_deployment_state", "The state of the last deployment", labels=labels)
        for router in self._models.routers:
            worker = router.serving
            release, name = (worker.release_id, worker.name) if worker else ("", router.expected_name())
            family.add_metric([name, release, self._state(router)], 1.0)
        yield family


def _gauge(name: str, text: str, value: float | None) -> Sequence[Metric]:
    """Returns a gauge, or nothing for an unknown value: Prometheus expects unknown values to be absent."""
    if value is None:
        return ()
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return (family,)


def _labels(totals: Totals) -> dict[str, str]:
    return {"model": totals.name, "version": totals.release_id}


def _exposition(families: Iterable[Metric]) -> str:
    """Returns the text format; the library's own writer adds "_total" to counters, unlike Triton."""
    lines: list[str] = []
    for family in families:
        lines += (f"# HELP {family.name} {family.documentation}", f"# TYPE {family.name} {family.type}")
        for sample in family.samples:
            labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
            lines.append(f"{sample.name}{{{labels}}} {float(sample.value)!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
