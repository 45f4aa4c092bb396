"""The agent's one HTTP port."""
