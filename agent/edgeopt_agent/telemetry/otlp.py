"""What metrics and traces share of OTLP over HTTP with JSON: attributes, times, and how a document is sent."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec

from edgeopt.version import __version__

_TIMEOUT_S = 10.0
# https://opentelemetry.io/docs/specs/otlp/#failures-1
_RETRYABLE = frozenset({429, 502, 503, 504})
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a collector did not take a document."""

    reason: str
    retryable: bool


def post(endpoint: str, path: str, document: Document) -> Failure | None:
    """Encodes and sends a document; None where the collector took it."""
    request = Request(  # noqa: S310 - the scheme was checked with the settings
        endpoint.rstrip("/") + path, msgspec.json.encode(document), {"Content-Type": "application/json"}
    )
    try:
        with urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310 - see above
            return None
    except HTTPError as error:
        return Failure(str(error), error.code in _RETRYABLE)
    except (OSError, ValueError, HTTPException) as error:
        return Failure(str(error), retryable=True)


def resource() -> Document:
    own = {"service.name": "edgeopt-agent", "service.version": __version__, "host.name": socket.gethostname()}
    return {"attributes": attributes(own)}


def scope() -> Document:
    return {"name": "edgeopt_agent", "version": __version__}


def attributes(values: Mapping[str, str | int]) -> list[Document]:
    """64-bit numbers are texts in the JSON of protobuf."""
    return [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in values.items()
    ]


def nanoseconds(seconds: float) -> str:
    return str(int(seconds * 1e9))
