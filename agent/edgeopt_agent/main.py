"""The entry point `edgeopt-agent`: its commands, and `--version`."""

import platform
import sys
from typing import Annotated

if sys.platform != "linux":  # before what only Linux has is imported
    sys.exit(
        f"edgeopt-agent: The agent runs on Linux only, and this is {platform.system()}. "
        "To reach agents from a machine with edgeopt: edgeopt fleet devices"
    )

import typer

from edgeopt.cli import program
from edgeopt.version import __version__
from edgeopt_agent.cli.certificate import fingerprint, renew_certificate
from edgeopt_agent.cli.config import config
from edgeopt_agent.cli.control import cancel, deploy, releases, remove, rollback, status
from edgeopt_agent.cli.doctor import doctor
from edgeopt_agent.cli.keep import gc, pin, unpin
from edgeopt_agent.cli.openapi import openapi
from edgeopt_agent.cli.pair import pair
from edgeopt_agent.cli.run import run as run_agent
from edgeopt_agent.cli.token import token
from edgeopt_agent.cli.trust import trust

# In the order of work, which is the order in `--help`.
COMMANDS = (
    ("run", run_agent),
    ("deploy", deploy),
    ("rollback", rollback),
    ("cancel", cancel),
    ("remove", remove),
    ("status", status),
    ("releases", releases),
    ("pin", pin),
    ("unpin", unpin),
    ("gc", gc),
    ("doctor", doctor),
    ("pair", pair),
    ("fingerprint", fingerprint),
    ("renew-certificate", renew_certificate),
    ("openapi", openapi),
    ("config", config),
    ("trust", trust),
    ("token", token),
)


def main() -> None:
    """Runs the command line of this process."""
    program.leave(run)


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code."""
    return program.run("edgeopt-agent", application, arguments)


def application() -> typer.Typer:
    """The program with all its commands."""
    made = program.application(_agent)
    for name, command in COMMANDS:
        program.add(made, name, command)
    return made


def _agent(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
    show_completion: program.ShowCompletion = None,
) -> None:
    """Serve models on this device; test each new release, and roll back if it fails.

    \b
    One agent can serve several models: `deploy --add` adds a model, `--model NAME` selects one,
    and `remove NAME` removes it.

    \b
    Examples:
      edgeopt-agent run                          start the agent; no configuration needed
      edgeopt-agent deploy model.edgeopt         deploy a bundle
      edgeopt-agent deploy other.edgeopt --add   serve another model in addition
      edgeopt-agent status                       the serving release and the last deployment
      edgeopt-agent rollback                     return to the previous release
    """
    if version:
        typer.echo(f"edgeopt-agent {__version__}")
        raise typer.Exit
    if show_completion is not None:
        typer.echo(program.script("edgeopt-agent", show_completion))
        raise typer.Exit


if __name__ == "__main__":
    main()
