"""`edgeopt.Pool`: several sessions that share the requests for one model."""
