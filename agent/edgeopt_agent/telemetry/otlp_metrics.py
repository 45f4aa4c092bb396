"""The figures of `/metrics`, sent to a collector of OpenTelemetry: OTLP over HTTP with JSON.

The format is that of opentelemetry-proto's `ExportMetricsServiceRequest`, whose 64-bit numbers are texts in JSON.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import Metric

from edgeopt_agent.telemetry.otlp import Document, Failure, attributes, nanoseconds, post, resource, scope
from edgeopt_agent.threads import in_thread

_PATH = "/v1/metrics"
_CUMULATIVE = 2
log = logging.getLogger(__name__)


async def export(endpoint: str, interval_s: float, collect: Callable[[], Iterable[Metric]]) -> None:
    """Sends the figures once an interval; says when a collector fails, and when it works again."""
    started_s = time.time()
    trouble: Failure | None = None
    while True:
        await asyncio.sleep(interval_s)
        found = document(collect(), started_s, time.time())
        before, trouble = trouble, await in_thread(partial(post, endpoint, _PATH, found))
        if trouble is not None and before is None:
            log.warning("The collector at %s gets no figures: %s", endpoint, trouble.reason)
        elif before is not None and trouble is None:
            log.warning("The collector at %s gets figures again.", endpoint)


def document(families: Iterable[Metric], started_s: float, now_s: float) -> Document:
    times = {"startTimeUnixNano": nanoseconds(started_s), "timeUnixNano": nanoseconds(now_s)}
    metrics = [_metric(family, times) for family in families if family.samples]
    return {
        "resourceMetrics": [{"resource": resource(), "scopeMetrics": [{"scope": scope(), "metrics": metrics}]}]
    }


def _metric(family: Metric, times: Document) -> Document:
    about: Document = {"name": family.name, "description": family.documentation}
    if family.type == "histogram":
        points = _histograms(family, times)
        return {**about, "histogram": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}}
    points = [
        {"attributes": attributes(sample.labels), **times, "asDouble": float(sample.value)}
        for sample in family.samples
    ]
    if family.type == "counter":
        total = {"dataPoints": points, "aggregationTemporality": _CUMULATIVE, "isMonotonic": True}
        return {**about, "sum": total}
    return {**about, "gauge": {"dataPoints": points}}


def _histograms(family: Metric, times: Document) -> list[Document]:
    """One point for each set of labels; Prometheus counts up to each limit, OTLP between two of them."""
    points: dict[tuple[tuple[str, str], ...], Document] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        empty: Document = {"attributes": attributes(labels), **times, "bucketCounts": [], "explicitBounds": []}
        point = points.setdefault(tuple(sorted(labels.items())), empty)
        if sample.name.endswith("_bucket"):
            point["bucketCounts"].append(int(sample.value))
            if sample.labels["le"] != "+Inf":
                point["explicitBounds"].append(float(sample.labels["le"]))
        elif sample.name.endswith("_count"):
            point["count"] = str(int(sample.value))
        else:
            point["sum"] = float(sample.value)
    for point in points.values():
        up_to = point["bucketCounts"]
        point["bucketCounts"] = [
            str(count - before) for before, count in zip([0, *up_to[:-1]], up_to, strict=True)
        ]
    return list(points.values())
