"""Soaks that last until a test ends them."""

LONG_SOAK = {"soak_s": 60, "soak_requests": 0}


def soaking(agent, bundle, **query):
    """Sends a bundle; the number of its deployment once it soaks."""
    begun = agent.send(bundle, **{**LONG_SOAK, **query})[2]["deployment"]
    number, model = begun["id"], begun["model"]

    def soaks():
        found = agent.ask("GET", f"/api/v1/deployments/{number}?model={model}")[2]["deployment"]
        assert found["state"] not in {"FAILED", "ROLLED_BACK"}, found["reason"]
        return found["state"] == "SOAKING" and found["progress"]

    agent.until(soaks, "the soak")
    return number
