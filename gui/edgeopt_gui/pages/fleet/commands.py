"""The command lines that send requests to a fleet."""

from dataclasses import dataclass

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.fleet.connection import Connection

CONTROLS = {"pause": "Pausing", "resume": "Continuing", "cancel": "Cancelling", "rollback": "Rolling back"}


@dataclass(frozen=True, slots=True)
class RolloutChoices:
    """The options of a rollout, as the user typed them."""

    bundle: str
    digest: str
    to: str
    waves: str = "1,10%,rest"
    stop_at_failures: str = "2%"
    max_errors: str = ""
    min_agreement_db: str = ""
    max_slowdown: str = ""
    soak_seconds: str = ""
    device_timeout: str = ""
    name: str = ""
    model: str = ""
    key: str = ""
    force: bool = False
    rename: bool = False
    allow_downgrade: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        found = [self.bundle]
        for name in self.__slots__[1:]:
            value = getattr(self, name)
            flag = f"--{name.replace('_', '-')}"
            found += [flag] if value is True else [flag, value] if value else []
        return tuple(found)


USUAL = RolloutChoices("", "", "")
"""Choices with the defaults of the command line."""


def follow(connection: Connection) -> Command:
    title = f"Following the fleet at {connection.broker}"
    return Command(title, ("fleet", "devices", "--follow", *connection.arguments), secrets=connection.secrets)


def start(connection: Connection, choices: RolloutChoices) -> Command:
    arguments = ("fleet", "rollout", "start", *choices.arguments, *connection.arguments)
    return Command(f"Rollout {choices.name}".strip(), arguments, secrets=connection.secrets)


def plan(connection: Connection, choices: RolloutChoices) -> Command:
    """Returns the command that reports the waves of `start` and orders nothing."""
    planned = start(connection, choices)
    return Command("Planning a rollout", (*planned.arguments, "--dry-run"), secrets=planned.secrets)


def control(connection: Connection, action: str, name: str, key: str = "") -> Command:
    with_key = ("--key", key) if key and action != "pause" else ()
    arguments = ("fleet", "rollout", action, name, *with_key, *connection.arguments)
    return Command(f"{CONTROLS[action]} the rollout {name}", arguments, secrets=connection.secrets)
