"""The command line that watches something on this machine."""

from pathlib import Path

from edgeopt_gui.jobs.command import Command


def watch_here(path: Path, data: Path | None, rate_per_s: float | None) -> Command:
    arguments = ["watch", str(path)]
    if data is not None:
        arguments += ["--data", str(data)]
    if rate_per_s is not None:
        arguments += ["--rate", f"{rate_per_s:g}"]
    return Command(f"Watching {path.name}", tuple(arguments))
