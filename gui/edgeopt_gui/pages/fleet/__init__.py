"""The page Fleet: the devices on an MQTT broker, and rollouts to them."""
