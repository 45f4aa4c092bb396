"""A deployment's life: `states` is the one table, `machine` walks it, `recovery` goes on after a restart."""
