"""The HTTP server of the agent: its routes, access, inference, metrics and telemetry, on one port."""
