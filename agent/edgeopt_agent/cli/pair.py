"""`edgeopt-agent pair`: a one-time code by which another machine gets a token."""

from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.views.blocks import Block, WordsBlock
from edgeopt_agent.cli.options import DataDirOption, RoleOption, in_data_folder

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
        _show,
        json,
    )


def _show(result: "NewCode") -> list[Block]:
    return [
        WordsBlock(
            f"Code for '{result.name}' (role {result.role}), for {result.valid_s / 60:.0f} minutes and one use:"
        ),
        WordsBlock(result.code),
        WordsBlock("On the other machine: edgeopt fleet pair --url https://DEVICE:8080"),
    ]
