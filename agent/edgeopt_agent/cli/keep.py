"""`edgeopt-agent pin|unpin|gc`: which releases stay on the device."""

from pathlib import Path
from typing import Annotated

import typer

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.errors import InputError
from edgeopt.fleet.records import Collected
from edgeopt.fleet.request import CollectRequest
from edgeopt.views.blocks import Block, Listed, WordsBlock
from edgeopt_agent.cli.control import AgentOption, ask
from edgeopt_agent.cli.options import DataDirOption, in_data_folder
from edgeopt_agent.data_dir import DataDir, pointed
from edgeopt_agent.own_commands import in_commands_of
from edgeopt_agent.releases import deployment_of
from edgeopt_agent.retention import Pins

ReleaseArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Release id, shown by `releases`.", show_default=False)
]


ModelOption = Annotated[
    str,
    typer.Option(metavar="NAME", help="Model of the release (default: the first one).", show_default=False),
]


def pin(
    release: ReleaseArgument, model: ModelOption = "", data_dir: DataDirOption = None, json: JsonFlag = False
) -> None:
    """Keep a release on the device until it is unpinned.

    \b
    Examples:
      edgeopt-agent pin 0123456789ab
    """
    from edgeopt_agent import retention

    execute(
        "pin",
        lambda _emit: in_data_folder(data_dir, lambda folder: retention.pin(_folder(folder, model), release)),
        _show_pins,
        json,
    )


def unpin(
    release: ReleaseArgument, model: ModelOption = "", data_dir: DataDirOption = None, json: JsonFlag = False
) -> None:
    """Allow the removal of a pinned release.

    \b
    Examples:
      edgeopt-agent unpin 0123456789ab
    """
    from edgeopt_agent import retention

    execute(
        "unpin",
        lambda _emit: in_data_folder(data_dir, lambda folder: retention.unpin(_folder(folder, model), release)),
        _show_pins,
        json,
    )


@asks(CollectRequest)
def gc(request: CollectRequest, data_dir: AgentOption = None, json: JsonFlag = False) -> None:
    """Remove releases that are no longer needed, as after each deployment.

    \b
    Examples:
      edgeopt-agent gc --dry-run
      edgeopt-agent gc
    """
    from edgeopt.fleet import commands

    ask("gc", request, data_dir, lambda local, _emit: commands.collect(local), _show_collected, json)


def _folder(data_dir: Path, model: str) -> DataDir:
    """The folder of a model on this device; raises InputError if it does not exist."""
    data = DataDir(data_dir)
    if not model:
        return data
    added = data.of_model(model)
    if added.root.is_dir():
        return added
    serving = pointed(data.current)
    if serving is None or deployment_of(data.release(serving)).name != model:
        hint = in_commands_of("See: edgeopt-agent status", data_dir)
        raise InputError(f"There is no model '{model[:80]}' in '{data.root}'.", hint)
    return data


def _show_pins(result: Pins) -> list[Block]:
    if not result.pins:
        return [WordsBlock("No release is pinned.")]
    return [WordsBlock("Pinned:"), Listed(result.pins)]


def _show_collected(result: Collected) -> list[Block]:
    if not result.releases:
        return [WordsBlock("Nothing to remove.")]
    return [WordsBlock("Would be removed:" if result.dry_run else "Removed:"), Listed(result.releases)]
