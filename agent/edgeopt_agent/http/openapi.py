"""The HTTP API as an OpenAPI document, made from the table of routes and the JSON Schemas of the records."""

import asyncio
import importlib
import re
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from edgeopt.version import __version__
from edgeopt_agent.completions.records import (
    ChatChunk,
    CompletionErrorDocument,
    TranscriptDelta,
    TranscriptDone,
)
from edgeopt_agent.http.access import needed_role
from edgeopt_agent.http.pairing import is_pairing
from edgeopt_agent.http.table import PREFIX, ROUTES, QueryParameter, RouteEntry
from edgeopt_agent.v2.records import ErrorSentence

PATH = f"{PREFIX}/openapi.json"
_VERSION = "3.1.0"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE = "#/components/schemas/{name}"
_JSON = "application/json"
_BINARY = "application/octet-stream"
_EVERY_ROUTE = (400, 401, 403, 429)
_NAMES = {
    "name": "Name of the model.",
    "version": "Release of the model; it must be the one that serves.",
    "number": "Number of the deployment.",
    "trial": "Session, as its answer begins with it.",
}
Document = dict[str, Any]


class ErrorDetails(msgspec.Struct, frozen=True):
    code: str
    message: str
    hint: str = ""


class ErrorDocument(msgspec.Struct, frozen=True):
    """Every error outside `/v2`."""

    error: ErrorDetails
    trust: str = ""
    """Missing where a request is refused before its route sees it."""


class Trusted(msgspec.Struct, frozen=True):
    """Fields that every answer of the control API has besides its own."""

    trust: str
    """Signatures that the agent requires."""


def routes() -> list[BaseRoute]:
    async def openapi(_request: Request) -> Response:
        # Made once; on a small device that takes longer than requests to a model may wait.
        return Response(await asyncio.to_thread(text), media_type=_JSON)

    return [Route(PATH, openapi)]


@cache
def text() -> bytes:
    return msgspec.json.encode(document())


def document() -> Document:
    """Returns the OpenAPI description of everything on the agent's port."""
    schemas = _Schemas()
    paths: dict[str, Document] = {}
    for entry in ROUTES:
        for path in _paths(entry):
            method = "get" if entry.method == "WS" else entry.method.lower()
            paths.setdefault(path, {})[method] = _operation(entry, path, schemas)
    return {
        "openapi": _VERSION,
        "jsonSchemaDialect": _DRAFT,
        "info": {
            "title": "edgeopt-agent",
            "version": __version__,
            "summary": "Serves models on a device, and deploys bundles there.",
            "description": "Readers ignore keys that they do not know: other versions of the agent may send more.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the role, or of a higher one: view, infer, deploy. An agent on "
                    "loopback without tokens needs none.",
                }
            },
        },
    }


def _paths(entry: RouteEntry) -> Iterator[str]:
    yield entry.path
    if entry.versioned:
        yield entry.path.replace("{name}", "{name}/versions/{version}")


class _Schemas:
    """The schemas of all records in the table, each once."""

    def __init__(self) -> None:
        places = {place: _named(place) for entry in ROUTES for place in (entry.answer, entry.body) if ":" in place}
        events = (ChatChunk, TranscriptDelta, TranscriptDone)
        others = (CompletionErrorDocument, ErrorDocument, ErrorSentence, Trusted)
        found, self.components = msgspec.json.schema_components(
            [*places.values(), *events, *others], ref_template=_TEMPLATE
        )
        *records, self.chunk, delta, done, self.text_error, self.error, self.sentence, self.trusted = found
        self.transcript_event = {"anyOf": [delta, done]}
        self._of = dict(zip(places, records, strict=True))

    def of(self, entry: RouteEntry) -> Document:
        """Returns the schema of the route's answer."""
        schema = self._of[entry.answer]
        if entry.method == "WS" or not entry.is_control:
            return {"type": "array", "items": schema} if entry.several else schema
        return {"allOf": [schema, self.trusted]}

    def body(self, entry: RouteEntry) -> Document:
        return self._of[entry.body]


def _named(place: str) -> Any:  # noqa: ANN401 - a type
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _operation(entry: RouteEntry, path: str, schemas: _Schemas) -> Document:
    names = re.findall(r"\{(\w+)\}", path)
    parameters = [*(_in_path(name) for name in names), *map(_in_query, entry.parameters)]
    scope = {
        "type": "websocket" if entry.method == "WS" else "http",
        "method": "GET" if entry.method == "WS" else entry.method,
        "path": path,
    }
    pairing = is_pairing(scope)
    operation: Document = {
        "operationId": _identifier(entry.method, path),
        "summary": entry.summary,
        "tags": [
            "control" if entry.is_control else "inference" if path.startswith(("/v1/", "/v2")) else "metrics"
        ],
        "security": [] if pairing else [{"bearer": [needed_role(scope)]}],
        "responses": dict(_answers(entry, schemas, pairing)),
    }
    if parameters:
        operation["parameters"] = parameters
    if entry.body:
        operation["requestBody"] = {"required": True, "content": _body(entry, schemas)}
    if entry.method == "WS":
        operation["description"] = "A WebSocket; OpenAPI has no words for its messages, which have this schema."
        operation["x-websocket-message"] = schemas.of(entry)
    return operation


def _identifier(method: str, path: str) -> str:
    words = re.findall(r"\w+", path.removeprefix(PREFIX))
    return "_".join([method.lower(), *(re.sub(r"\W", "_", word) for word in words)])


def _in_path(name: str) -> Document:
    kind = "integer" if name == "number" else "string"
    return {"name": name, "in": "path", "required": True, "description": _NAMES[name], "schema": {"type": kind}}


def _in_query(parameter: QueryParameter) -> Document:
    schema: Document = {"type": parameter.kind}
    if parameter.kind == "flag":
        schema = {"type": "integer", "enum": [0, 1]}
    elif parameter.kind in {"integer", "number"}:
        schema["minimum"] = 0
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.text,
        "schema": schema,
    }


def _body(entry: RouteEntry, schemas: _Schemas) -> Document:
    if ":" not in entry.body:
        return {entry.body: {}}
    if _is_speech(entry):
        file = {"type": "object", "required": ["file"], "properties": {"file": {"contentMediaType": "audio/wav"}}}
        return {"multipart/form-data": {"schema": {"allOf": [schemas.body(entry), file]}}}
    return {_JSON: {"schema": schemas.body(entry)}, **_with_tensors(entry)}


def _is_speech(entry: RouteEntry) -> bool:
    return entry.path.startswith("/v1/audio/")


def _with_tensors(entry: RouteEntry) -> Document:
    """Describes JSON followed by tensors, which begin at Inference-Header-Content-Length; empty without any."""
    return {_BINARY: {}} if entry.path.endswith("/infer") else {}


def _answers(entry: RouteEntry, schemas: _Schemas, pairing: bool) -> Iterator[tuple[str, Document]]:
    answer: Document = {"description": entry.summary + "."}
    if entry.method == "WS":
        pass
    elif ":" in entry.answer:
        answer["content"] = {_JSON: {"schema": schemas.of(entry)}, **_with_tensors(entry)}
        if _is_speech(entry):
            answer["content"]["text/plain"] = {"schema": {"type": "string"}}
            if "transcriptions" in entry.path:
                answer["content"]["text/event-stream"] = {"schema": schemas.transcript_event}
        elif entry.path.startswith("/v1/") and entry.body:
            piece = schemas.chunk if "chat" in entry.path else schemas.of(entry)
            answer["content"]["text/event-stream"] = {"schema": piece}
    elif entry.answer == _JSON:
        answer["content"] = {_JSON: {"schema": {"type": "object"}}}
    elif entry.answer:
        answer["content"] = {entry.answer: {"schema": {"type": "string"}}}
    yield str(entry.status), answer
    error = schemas.sentence if entry.path.startswith("/v2") else schemas.error
    if entry.path.startswith("/v1/"):
        error = schemas.text_error
    content = {_JSON: {"schema": error}}
    common = (status for status in _EVERY_ROUTE if not (pairing and status in {401, 429}))
    for status in sorted({*common, *entry.refusals}):
        yield str(status), {"description": HTTPStatus(status).phrase, "content": content}
    yield "default", {"description": "Another failure.", "content": content}
