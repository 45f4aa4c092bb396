"""`edgeopt-agent doctor`: problems of an installation, and their remedies."""

from typing import Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.errors import InputError
from edgeopt.views.blocks import Block, WordsBlock
from edgeopt_agent.cli.options import ConfigOption, DataDirOption
from edgeopt_agent.config import administered
from edgeopt_agent.doctor.findings import Diagnosis

_MARKS = {"ok": "ok     ", "warning": "WARNING", "problem": "PROBLEM"}


def doctor(
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port to listen on; 0: any free port.", min=0, max=65535, show_default="8080"),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Check the installation, also beside a running agent; change nothing.

    \b
    Exit code 0: no problem; 3: a problem.

    \b
    Examples:
      edgeopt-agent doctor
      edgeopt-agent doctor --host 0.0.0.0 --json | jq '.data.findings[] | select(.health != "ok")'
    """
    found: list[Diagnosis] = []

    def work(_emit: object) -> Diagnosis:
        from edgeopt_agent.doctor.checks import diagnose

        options = {"data_dir": data_dir, "host": host, "port": port}
        found.append(diagnose(administered(config, options).settings))
        return found[0]

    execute("doctor", work, show, json)
    if any(each.health == "problem" for diagnosis in found for each in diagnosis.findings):
        raise typer.Exit(InputError.exit_code)


def show(result: Diagnosis) -> list[Block]:
    width = max(len(each.check) for each in result.findings)
    return [
        WordsBlock(
            f"{_MARKS[each.health]} {each.check:{width}} {each.message}"
            + (f" {each.advice}" if each.advice else "")
        )
        for each in result.findings
    ]
