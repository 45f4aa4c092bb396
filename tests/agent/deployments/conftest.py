import pytest


@pytest.fixture
def agent(start_agent, old_bundle):
    """An agent that serves the old bundle."""
    agent = start_agent()
    done = agent.deploy(old_bundle)
    assert done["state"] == "COMMITTED", done["reason"]
    return agent
