"""Facts about the machine: `device` (the records), `host` (the only access to it), `probe` (runs the probes)."""
