"""The agent in a fleet: presence, state, telemetry, orders and commands over MQTT 5."""
