"""The figures of `/metrics`, sent to a collector of OpenTelemetry: OTLP over HTTP with JSON.

The format is that of opentelemetry-proto's `ExportMetricsServiceRequest`, whose 64-bit numbers are texts in JSON.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.request import Request, urlopen

import msgspec
from prometheus_client import Metric

from edgeopt.version import __version__
from edgeopt_agent.threads import in_thread

_PATH = "/v1/metrics"
_TIMEOUT_S = 10.0
_CUMULATIVE = 2
Document = dict[str, Any]
log = logging.getLogger(__name__)


async def export(endpoint: str, interval_s: float, collect: Callable[[], Iterable[Metric]]) -> None:
    """Sends the figures once an interval; says when a collector fails, and when it works again."""
    started_s = time.time()
    trouble = ""
    while True:
        await asyncio.sleep(interval_s)
        body = msgspec.json.encode(document(collect(), started_s, time.time()))
        before, trouble = trouble, await in_thread(partial(_post, endpoint, body))
        if trouble and not before:
            log.warning("The collector at %s gets no figures: %s", endpoint, trouble)
        elif before and not trouble:
            log.warning("The collector at %s gets figures again.", endpoint)


def _post(endpoint: str, body: bytes) -> str:
    """Why the collector did not take it; empty where it did."""
    request = Request(  # noqa: S310 - the scheme was checked with the settings
        endpoint.rstrip("/") + _PATH, body, {"Content-Type": "application/json"}
    )
    try:
        with urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310 - see above
            return ""
    except (OSError, ValueError, HTTPException) as error:
        return str(error)


def document(families: Iterable[Metric], started_s: float, now_s: float) -> Document:
    times = {"startTimeUnixNano": _nanoseconds(started_s), "timeUnixNano": _nanoseconds(now_s)}
    own = {"service.name": "edgeopt-agent", "service.version": __version__, "host.name": socket.gethostname()}
    scope = {"name": "edgeopt_agent", "version": __version__}
    metrics = [_metric(family, times) for family in families if family.samples]
    resource = {"attributes": _attributes(own)}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]}


def _metric(family: Metric, times: Document) -> Document:
    about: Document = {"name": family.name, "description": family.documentation}
    if family.type == "histogram":
        points = _histograms(family, times)
        return {**about, "histogram": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}}
    points = [
        {"attributes": _attributes(sample.labels), **times, "asDouble": float(sample.value)}
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
        empty: Document = {"attributes": _attributes(labels), **times, "bucketCounts": [], "explicitBounds": []}
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


def _attributes(labels: Mapping[str, str]) -> list[Document]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in labels.items()]


def _nanoseconds(seconds: float) -> str:
    return str(int(seconds * 1e9))
