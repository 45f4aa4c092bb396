"""Simplification by passes, with a proof of the result, also for scripts: `edgeopt simplify`."""
