"""Clients of agents and of MQTT brokers: deployments, telemetry, pairing, and rollouts in waves."""
