"""What the machine is: `device` (the records), `host` (the only way to see it), `probe` (runs the probes)."""
