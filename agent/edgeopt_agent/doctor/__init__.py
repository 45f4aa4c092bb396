"""`edgeopt-agent doctor`: checks whether an agent can work on this device, and changes nothing."""
