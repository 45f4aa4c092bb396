from edgeopt_agent.workers.requests import Request


def infer_request(body, model="null", version=None):
    """Returns the request that a client sends to the agent with this body."""
    return Request(model, version, (body,))
