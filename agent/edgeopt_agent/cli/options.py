"""Options that several of the agent's commands take."""

from pathlib import Path
from typing import Annotated

import typer

from edgeopt.hw.home import expanded
from edgeopt_agent.settings import administered_data_dir
from edgeopt_agent.tokens import Role

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Configuration file (TOML); command-line options take precedence.",
        show_default="/etc/edgeopt/agent.toml under systemd, or ~/.config/edgeopt/agent.toml, where there is one",
    ),
]

DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder for the agent's state.", show_default="~/.local/state/edgeopt, or the service's"),
]

RoleOption = Annotated[
    Role,
    typer.Option(help="view: status, events, metrics, telemetry; infer: also inference; deploy: everything."),
]


def data_folder(given: Path | None) -> Path:
    return expanded(given or administered_data_dir()).absolute()
