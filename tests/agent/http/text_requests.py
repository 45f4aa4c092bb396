"""Requests in OpenAI's protocol to an agent of a test, and a bundle that answers them."""

import http.client
import json
import re
import time
from contextlib import closing

from edgeopt.bundle.deployment import Cache
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.write import put_text
from tests.bundle.runtime.decoder import PAIRS
from tests.bundle.runtime.scripted import write_scripted
from tests.bundle.runtime.test_generation import bundle_of

CONTEXT = 48
PORTS = ("input_ids", "logits", "attention_mask", "position_ids")


def text_bundle(folder, max_context_tokens=CONTEXT, **scripted):
    model = write_scripted(folder / "m.onnx", **scripted)
    cache = Cache(PAIRS, 2, *PORTS, max_context_tokens=max_context_tokens)
    bundle = bundle_of(model, folder / "m.edgeopt", cache=cache)
    put_text(bundle, model)
    write_manifest(bundle)
    return bundle


def ask(server, path, body=None, method=None):
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        sent = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method or ("GET" if body is None else "POST"), path, sent)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def ask_json(server, path, **body):
    status, _, content = ask(server, path, {"model": "m", **body} if body else None)
    return status, json.loads(content)


def events(content):
    """Returns the data of server-sent events, decoded but for the last `[DONE]`."""
    lines = content.decode().split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    data = [line.removeprefix("data: ") for line in lines]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def metric(server, name):
    _, _, text = ask(server, "/metrics")
    found = re.search(rf"^{name}{{[^}}]*}} (\S+)$", text.decode(), re.MULTILINE)
    return float(found[1])


def until(ready, limit_s=30):
    deadline = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)
