"""What tests of bundles that the agent fetches share."""

import json
from hashlib import sha256

RETRIES = {"fetch_retry_s": 0.01, "fetch_retry_most_s": 0.05}


def digest_of(content):
    return f"sha256:{sha256(content).hexdigest()}"


def want(agent, url, digest, **more):
    """The answer to a request by reference, whatever it is."""
    return agent.ask("POST", "/api/v1/desired", json.dumps({"bundle": url, "digest": digest, **more}))


def begin(agent, server, **more):
    status, _, answer = want(agent, server.url, digest_of(server.content), **more)
    assert status == 202, answer
    return answer["deployment"]["id"]


def end(agent, server, **more):
    return agent.ended(begin(agent, server, **more))


def states(done):
    return [moment["state"] for moment in done["history"]]


def received(agent, minimum):
    """Waits until so many bytes of the running download have come."""
    return agent.until(
        lambda: (agent.status()["deployment"]["progress"] or {}).get("received_bytes", 0) >= minimum, "the bytes"
    )


def partial_files(agent):
    return [file.name for file in (agent.data_dir / "partial").iterdir()]
