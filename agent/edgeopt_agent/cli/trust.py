"""`edgeopt-agent trust`: the keys whose bundles this device takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.views.blocks import Block, Listed, WordsBlock
from edgeopt_agent.cli.options import DataDirOption, in_data_folder
from edgeopt_agent.trusted_keys import TrustedKeys


def _trust(context: typer.Context) -> None:
    """Manage the keys whose bundles this device accepts, on the device itself. All take --json.

    \b
    Without a trusted key, the agent accepts unsigned bundles and listens on loopback only. With
    one or more, it accepts only bundles signed by one of them. A running agent notices changes.

    \b
    Examples:
      edgeopt-agent trust add release-key.pub
      edgeopt-agent trust list
      edgeopt-agent trust remove 1a2b3c4d5e6f7081
    """
    program.help_without_command(context)


def add(
    key: Annotated[
        Path, typer.Argument(help="Public key file, written by `edgeopt sign --new-key`.", show_default=False)
    ],
    data_dir: DataDirOption = None,
    json: JsonFlag = False,
) -> None:
    """Trust a key.

    \b
    Examples:
      edgeopt-agent trust add release-key.pub
      edgeopt-agent trust add release-key.pub --data-dir /var/lib/edgeopt
    """
    from edgeopt_agent.trusted_keys import add

    execute("trust", lambda _emit: in_data_folder(data_dir, lambda folder: add(folder, key)), show, json)


def list_keys(data_dir: DataDirOption = None, json: JsonFlag = False) -> None:
    """List the trusted keys.

    \b
    Examples:
      edgeopt-agent trust list
      edgeopt-agent trust list --json | jq '.data.keys[].id'
    """
    from edgeopt_agent.trusted_keys import trusted

    execute("trust", lambda _emit: in_data_folder(data_dir, trusted), show, json)


def remove(
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="Key id, shown by `trust list`.", show_default=False)
    ],
    data_dir: DataDirOption = None,
    json: JsonFlag = False,
) -> None:
    """Remove a trusted key; a release that it signed and that serves already keeps serving.

    \b
    Examples:
      edgeopt-agent trust remove 1a2b3c4d5e6f7081
    """
    from edgeopt_agent.trusted_keys import remove

    execute("trust", lambda _emit: in_data_folder(data_dir, lambda folder: remove(folder, key_id)), show, json)


def show(result: TrustedKeys) -> list[Block]:
    if not result.keys:
        return [WordsBlock("No trusted keys: the agent accepts unsigned bundles, from this device only.")]
    keys = tuple(f"{key.id}  since {key.since[:16].replace('T', ' ')}" for key in result.keys)
    return [WordsBlock(f"Trusted in {result.data_dir}:"), Listed(keys)]


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (("add", add), ("list", list_keys), ("remove", remove))

trust = program.application(_trust)
for name, command in COMMANDS:
    program.add(trust, name, command)
