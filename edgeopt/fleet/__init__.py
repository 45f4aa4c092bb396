"""The client of agents: deployments, live telemetry, and requests to have something to watch."""
