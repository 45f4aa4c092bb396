"""What `edgeopt simplify` does: passes over a model, the proof of the result, and the same for scripts."""
