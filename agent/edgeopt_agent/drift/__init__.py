"""Whether the requests to the serving release, and its answers, still look as they did at first."""
