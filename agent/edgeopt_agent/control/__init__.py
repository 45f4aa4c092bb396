"""What the agent does and tells when it is asked, the same over HTTP and MQTT."""
