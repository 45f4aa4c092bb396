"""What pages share of agents: their addresses, access to them, deployments to them."""
