"""Models as graphs: load and save, exact rewrites with a ledger, and the proof that they change nothing."""
