"""A lawful request that needs more memory than the worker may take: its own fault, and never the release's."""

import http.client
import json

MIB = 1 << 20
BODY_BYTES = 400 * MIB
LIMITS = {"worker_memory_bytes": 200 * MIB, "max_body_bytes": 500 * MIB}


def post_large(agent):
    """A batch of binary rows, sent in pieces."""
    tensor = {"name": "x", "datatype": "FP32", "shape": [BODY_BYTES // 16, 4]}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": BODY_BYTES}}]}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=60)
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Length": str(len(head) + BODY_BYTES)}
    pieces = iter([head, *[bytes(MIB)] * (BODY_BYTES // MIB)])
    connection.request("POST", "/v2/models/null/infer", pieces, headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_a_request_above_the_memory_limit_is_refused_and_the_soak_goes_on(start_agent, old_bundle):
    agent = start_agent(soak_s=0.0, soak_requests=60, **LIMITS)
    sent = agent.send(old_bundle)
    agent.until(lambda: agent.status()["serving"], "the soak")
    pid = agent.status()["serving"]["pid"]
    status, answer = post_large(agent)
    assert status == 507
    assert "needs too much memory" in answer["error"]
    assert agent.status()["serving"]["pid"] == pid
    assert agent.ended(sent[2]["deployment"]["id"])["state"] == "COMMITTED"
    agent.serves(old_bundle)
