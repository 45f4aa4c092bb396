"""Deployments: `states` is the table of steps, `machine` runs them, `recovery` continues after a restart."""
