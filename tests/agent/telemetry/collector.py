"""A collector of OpenTelemetry, as an HTTP server of the test."""

import json
import queue
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECONDS = 30
TRACES = "/v1/traces"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
UNSAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
FIELDS = {
    "traceId": (str, r"[0-9a-f]{32}"),
    "spanId": (str, r"[0-9a-f]{16}"),
    "parentSpanId": (str, r"[0-9a-f]{16}"),
    "flags": (int, r"\d+"),
    "name": (str, r".+"),
    "kind": (int, r"[0-5]"),
    "startTimeUnixNano": (str, r"\d+"),
    "endTimeUnixNano": (str, r"\d+"),
    "attributes": (list, r"(?s).*"),
    "events": (list, r"(?s).+"),
    "status": (dict, r"(?s).+"),
}
"""Those of a span in opentelemetry-proto: ids in hex, 64-bit numbers as texts, enums as numbers."""
VALUES = {"stringValue": str, "intValue": str}


@contextmanager
def collecting(statuses=(), path=""):
    """A collector; what it receives, at one path or all, and where. It answers with these statuses first."""
    received, left = queue.Queue(), list(statuses)

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            counts = path in {"", self.path}
            status = left.pop(0) if left and counts else 200
            self.send_response(status)
            self.end_headers()
            if counts:
                received.put((status, self.path, self.headers["Content-Type"], json.loads(body)))

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield received, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def spans_of(document):
    """The spans of one export, each field checked against the protocol's."""
    (resource,) = document["resourceSpans"]
    assert values(resource["resource"]["attributes"])["service.name"] == "edgeopt-agent"
    (scope,) = resource["scopeSpans"]
    assert scope["scope"]["name"] == "edgeopt_agent"
    for span in scope["spans"]:
        for name, value in span.items():
            kind, pattern = FIELDS[name]
            assert type(value) is kind
            assert re.fullmatch(pattern, str(value)), (name, value)
        assert {"traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"} <= span.keys()
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert span.get("status", {}).keys() <= {"code", "message"}
        for event in span.get("events", ()):
            assert event.keys() == {"name", "timeUnixNano", "attributes"}
    return scope["spans"]


def values(attributes):
    found = {}
    for each in attributes:
        ((kind, value),) = each["value"].items()
        assert type(value) is VALUES[kind]
        found[each["key"]] = int(value) if kind == "intValue" else value
    return found


def receive(received, count):
    """So many spans, by name; whatever else comes with them."""
    spans = []
    while len(spans) < count:
        spans += spans_of(received.get(timeout=SECONDS)[3])
    return {span["name"]: span for span in spans}
