"""The command lines behind the Live page."""

from pathlib import Path

from edgeopt_gui.jobs.command import Command


def watch_here(path: Path, data: Path | None, rate_per_s: float | None) -> Command:
    arguments = ["watch", str(path)]
    if data is not None:
        arguments += ["--data", str(data)]
    if rate_per_s is not None:
        arguments += ["--rate", f"{rate_per_s:g}"]
    return Command(f"Watching {path.name}", tuple(arguments))


def watch_agent(url: str, send_per_s: float | None, data: Path | None, model: str = "") -> Command:
    """0 sends as fast as the agent answers; None sends nothing. No model stands for the agent's first one."""
    arguments = ["fleet", "watch", "--url", url, *_model(model)]
    if send_per_s is not None:
        arguments += ["--send", f"{send_per_s:g}"]
        if data is not None:
            arguments += ["--data", str(data)]
    return Command(f"Watching the agent at {url}", tuple(arguments))


def deploy(bundle: Path, url: str) -> Command:
    return Command(f"Deploying {bundle.name}", ("fleet", "deploy", str(bundle), "--url", url))


def roll_back(url: str, model: str = "") -> Command:
    what = f"{model} on the agent at {url}" if model else f"the agent at {url}"
    return Command(f"Rolling back {what}", ("fleet", "rollback", "--url", url, *_model(model)))


def status(url: str) -> Command:
    return Command(f"Asking the agent at {url}", ("fleet", "status", "--url", url))


def _model(name: str) -> tuple[str, ...]:
    return ("--model", name) if name else ()
