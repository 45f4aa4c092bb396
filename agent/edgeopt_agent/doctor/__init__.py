"""`edgeopt-agent doctor`: what keeps an agent from working on this device, without touching it."""
