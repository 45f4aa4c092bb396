"""The states of a deployment in the user's words."""

# A state as the agent tells it, in the user's words.
WORDS = {
    "accepted": "accepted",
    "receiving": "received",
    "verifying": "checking",
    "staged": "checked",
    "probing": "test run",
    "switching": "switching",
    "soaking": "soaking",
    "committed": "committed",
    "failed": "refused",
    "rolling_back": "rolling back",
    "rolled_back": "rolled back",
    "degraded": "rollback failed",
}


def words(state: str) -> str:
    """Returns a state in the user's words; a state of a newer agent stays as it is."""
    return WORDS.get(state, state.replace("_", " "))
