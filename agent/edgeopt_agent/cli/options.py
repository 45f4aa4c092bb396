"""Options that several of the agent's commands take."""

from pathlib import Path
from typing import Annotated

import typer

from edgeopt_agent.settings import default_data_dir

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        help="Where the agent keeps its state.", show_default="~/.local/state/edgeopt, or systemd's choice"
    ),
]


def data_folder(given: Path | None) -> Path:
    return (given or default_data_dir()).expanduser().absolute()
