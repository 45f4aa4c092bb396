"""Options that several of the agent's commands take."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from edgeopt.errors import UsageError, is_disk_full
from edgeopt.platform.user_folders import expanded
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


Result = TypeVar("Result")


def in_data_folder(data_dir: Path | None, work: Callable[[Path], Result]) -> Result:
    """Calls `work` with the data folder; raises UsageError if this user cannot read or write the folder."""
    folder = data_folder(data_dir)
    try:
        return work(folder)
    except OSError as error:
        if is_disk_full(error):
            raise
        raise UsageError(
            f"The data folder '{folder}' cannot be used: {error.strerror or error}.",
            "Run this as root or as the agent's user, or choose another with --data-dir.",
        ) from None


def data_folder(data_dir: Path | None) -> Path:
    return expanded(data_dir or administered_data_dir()).absolute()
