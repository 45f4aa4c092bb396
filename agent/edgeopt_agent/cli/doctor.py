"""`edgeopt-agent doctor`: what keeps an agent from working here, and what to do."""

from typing import Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.commands.documents.blocks import Block, Words
from edgeopt.errors import InputError
from edgeopt_agent.cli.options import DataDirOption, data_folder
from edgeopt_agent.doctor.findings import Diagnosis
from edgeopt_agent.settings import Settings

_MARKS = {"ok": "ok     ", "warning": "WARNING", "problem": "PROBLEM"}


def doctor(
    data_dir: DataDirOption = None,
    host: Annotated[str, typer.Option(help="Where the agent is to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any that is free.", min=0, max=65535)] = 8080,
    json: JsonFlag = False,
) -> None:
    """Check whether an agent can work here, with or without one that runs; changes nothing.

    \b
    Exit code 0, or 3 where there is a problem.

    \b
    Examples:
      edgeopt-agent doctor
      edgeopt-agent doctor --host 0.0.0.0 --json | jq '.data.findings[] | select(.health != "ok")'
    """
    settings = Settings(data_dir=data_folder(data_dir), host=host, port=port)
    found: list[Diagnosis] = []

    def work(_emit: object) -> Diagnosis:
        from edgeopt_agent.doctor.checks import diagnose

        found.append(diagnose(settings))
        return found[0]

    execute("doctor", work, show, json)
    if any(each.health == "problem" for diagnosis in found for each in diagnosis.findings):
        raise typer.Exit(InputError.exit_code)


def show(result: Diagnosis) -> list[Block]:
    width = max(len(each.check) for each in result.findings)
    return [
        Words(
            f"{_MARKS[each.health]} {each.check:{width}} {each.message}"
            + (f" {each.advice}" if each.advice else "")
        )
        for each in result.findings
    ]
