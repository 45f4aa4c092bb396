"""Telemetry: latency, memory and load of the agent, streamed to clients that watch."""
