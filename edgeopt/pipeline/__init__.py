"""Search pipeline from a model to a proved bundle: inspect, cache, plans, build, screen, race, prove."""
