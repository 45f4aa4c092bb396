"""The agent's actions and reports on request, the same over HTTP and MQTT."""
