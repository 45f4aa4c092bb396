"""The table of commands of `edgeopt`."""

# In the order of work, which is the order in `--help`.
GROUPS = (
    ("Understand", ("probe", "targets", "presets", "backends", "plugins", "analyze", "graph", "ops", "passes")),
    ("Optimize", ("import", "optimize", "quantize", "simplify", "compare-calibrations", "compare", "lab")),
    ("Measure", ("bench", "watch", "run", "verify", "report", "cost", "track")),
    ("Deploy", ("export", "sign", "push", "pull", "replay", "profile", "fleet")),
    ("Other", ("cache", "schema", "demo")),
)
COMMANDS = tuple(name for _, names in GROUPS for name in names)
