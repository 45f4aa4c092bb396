"""`edgeopt-agent pair`: a one-time code by which another machine gets a token."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.views.blocks import Block, WordsBlock
from edgeopt_agent.cli.options import DataDirOption, RoleOption, data_folder, in_data_folder

if TYPE_CHECKING:
    from edgeopt_agent.pairing import NewCode


def pair(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the token, such as its user.", show_default=False)
    ],
    role: RoleOption = "view",
    data_dir: DataDirOption = None,
    json: JsonFlag = False,
) -> None:
    """Print a code that gives one client a token, once and within five minutes.

    \b
    On the client: edgeopt fleet pair --url https://DEVICE:8080

    \b
    Examples:
      edgeopt-agent pair laptop --role deploy
    """
    from edgeopt_agent import pairing

    execute(
        "pair",
        lambda _emit: in_data_folder(data_dir, lambda folder: pairing.new_code(folder, name, role)),
        lambda code: _show(code, _address(data_folder(data_dir))),
        json,
    )


def _address(data_dir: Path) -> str:
    """Returns where clients reach the agent; without TLS, only those on this device can pair."""
    from edgeopt_agent.certificate import listening
    from edgeopt_agent.trust import is_loopback

    found = listening(data_dir)
    if found is None:
        return "https://DEVICE:8080"
    return f"https://DEVICE:{found.port}" if found.certificate and is_loopback(found.host) else found.url


def _show(result: "NewCode", url: str) -> list[Block]:
    return [
        WordsBlock(
            f"Code for '{result.name}' (role {result.role}), for {result.valid_s / 60:.0f} minutes and one use:"
        ),
        WordsBlock(result.code),
        WordsBlock(f"On the other machine: edgeopt fleet pair --url {url}"),
    ]
