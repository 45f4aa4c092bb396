"""`edgeopt-agent token`: who may use this agent, and for what."""

from collections.abc import Callable
from typing import Annotated

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.views.blocks import Block, Row, Table, WordsBlock, columns
from edgeopt_agent.cli.options import DataDirOption, RoleOption, in_data_folder
from edgeopt_agent.tokens import NewToken, Tokens

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the token, such as its user.", show_default=False)
]


def _token(context: typer.Context) -> None:
    """Manage access tokens, on the device itself. All commands take --json.

    \b
    Once there is a token, requests without one are refused. An agent that other devices can reach
    does not start without one. A running agent notices changes.

    \b
    Examples:
      edgeopt-agent token add laptop --role deploy
      edgeopt-agent token list
      edgeopt-agent token remove laptop
    """
    program.help_without_command(context)


def add(
    name: NameArgument,
    role: RoleOption = "view",
    data_dir: DataDirOption = None,
    json: JsonFlag = False,
) -> None:
    """Create a token and print it once; the agent stores only its digest.

    \b
    Examples:
      edgeopt-agent token add laptop --role deploy
      edgeopt-agent token add prometheus --data-dir /var/lib/edgeopt
    """
    from edgeopt_agent import tokens

    execute(
        "token",
        lambda _emit: in_data_folder(data_dir, lambda folder: tokens.add(folder, name, role)),
        _show_new,
        json,
    )


def list_tokens(data_dir: DataDirOption = None, json: JsonFlag = False) -> None:
    """List the tokens and their roles.

    \b
    Examples:
      edgeopt-agent token list
      edgeopt-agent token list --json | jq '.data.tokens[].name'
    """
    from edgeopt_agent import tokens

    execute("token", lambda _emit: in_data_folder(data_dir, tokens.tokens_of), _show, json)


def remove(name: NameArgument, data_dir: DataDirOption = None, json: JsonFlag = False) -> None:
    """Remove a token; requests with it are refused from then on.

    \b
    Examples:
      edgeopt-agent token remove laptop
    """
    from edgeopt_agent import tokens

    execute(
        "token", lambda _emit: in_data_folder(data_dir, lambda folder: tokens.remove(folder, name)), _show, json
    )


def _show_new(result: NewToken) -> list[Block]:
    return [
        WordsBlock(f"The token '{result.name}' (role {result.role}), which is not shown again:"),
        WordsBlock(result.token),
        WordsBlock("Set it as EDGEOPT_TOKEN for edgeopt fleet, or send it as: Authorization: Bearer TOKEN"),
    ]


def _show(result: Tokens) -> list[Block]:
    if not result.tokens:
        message = "No tokens. An agent on loopback accepts requests without one."
        return [WordsBlock(f"{message} An agent on other addresses rejects all requests.")]
    rows = tuple(Row((each.name, each.role, each.since[:16].replace("T", " "))) for each in result.tokens)
    return [Table(columns("=name", "=role", "since"), rows)]


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (("add", add), ("list", list_tokens), ("remove", remove))

token = program.application(_token)
for each_name, command in COMMANDS:
    program.add(token, each_name, command)
