"""The command lines that send requests to an agent."""

from pathlib import Path

from edgeopt_gui.jobs.command import Command


def watch_agent(url: str, send_per_s: float | None, data: Path | None, model: str = "") -> Command:
    """Watches an agent and sends requests: 0 sends without pause, None sends none; "" is its first model."""
    arguments = ["fleet", "watch", "--url", url, *_model(model)]
    if send_per_s is not None:
        arguments += ["--send", f"{send_per_s:g}"]
        if data is not None:
            arguments += ["--data", str(data)]
    return Command(f"Watching the agent at {url}", tuple(arguments))


def deploy(bundle: Path, url: str, ways: tuple[str, ...] = ()) -> Command:
    """`ways` are options that allow more than a plain deployment."""
    return Command(f"Deploying {bundle.name}", ("fleet", "deploy", str(bundle), "--url", url, *ways))


def plan(bundle: Path, url: str, ways: tuple[str, ...] = ()) -> Command:
    """Returns the command that reports what `deploy` would change."""
    return Command(f"Asking the agent at {url}", (*deploy(bundle, url, ways).arguments, "--dry-run"))


def cancel(url: str) -> Command:
    return Command(f"Cancelling the deployment at {url}", ("fleet", "cancel", "--url", url))


def roll_back(url: str, model: str = "") -> Command:
    what = f"{model} on the agent at {url}" if model else f"the agent at {url}"
    return Command(f"Rolling back {what}", ("fleet", "rollback", "--url", url, *_model(model)))


def status(url: str) -> Command:
    return Command(f"Asking the agent at {url}", ("fleet", "status", "--url", url))


def _model(name: str) -> tuple[str, ...]:
    return ("--model", name) if name else ()
