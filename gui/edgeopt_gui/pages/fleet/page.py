"""The actions of the page Fleet, as a table."""

from collections.abc import Callable

from edgeopt.fleet.rollout_documents import Action as RolloutAction
from edgeopt_gui.actions.action import Action, Face
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.fleet import situation
from edgeopt_gui.pages.fleet.fleet_page import FleetPage
from edgeopt_gui.pages.fleet.situation import FleetSituation

_MENU = "Fleet"


def _when(why_not: Callable[[FleetSituation], str]) -> Callable[[FleetPage], str]:
    return lambda page: why_not(page.situation)


def _unless(action: RolloutAction) -> Callable[[FleetPage], str]:
    return lambda page: page.why_not(action)


def _command(action: RolloutAction) -> Callable[[FleetPage], Command | None]:
    return lambda page: page.command_of(action)


def _ask(action: RolloutAction) -> Callable[[FleetPage], None]:
    return lambda page: page.ask_to_control(action)


def _face_of_resume(page: FleetPage) -> Face | None:
    report = page.rollout
    return (
        Face("Take over the rollout")
        if report is not None and report.phase in {"running", "rolling-back"}
        else None
    )


ACTIONS = (
    Action(
        "fleet.start",
        "Start a rollout…",
        _MENU,
        FleetPage.ask_to_start,
        _when(situation.why_not_start),
        shortcut="Ctrl+N",
        icon="send",
        primary=True,
        also="deploy update release ota",
    ),
    Action(
        "fleet.connect",
        "Connect to a fleet…",
        _MENU,
        FleetPage.ask_for_connection,
        shortcut="Ctrl+Shift+U",
        icon="connect",
        command=FleetPage.command,
    ),
    Action(
        "fleet.disconnect",
        "Disconnect from the fleet",
        _MENU,
        FleetPage.disconnect_from,
        _when(situation.why_not_disconnect),
        icon="disconnect",
    ),
    Action(
        "fleet.pause",
        "Pause the rollout…",
        _MENU,
        _ask("pause"),
        _unless("pause"),
        shortcut="Ctrl+Shift+P",
        icon="pause",
        command=_command("pause"),
        begins_group=True,
    ),
    Action(
        "fleet.resume",
        "Resume the rollout",
        _MENU,
        FleetPage.resume,
        _unless("resume"),
        icon="play",
        command=_command("resume"),
        face=_face_of_resume,
    ),
    Action(
        "fleet.cancel",
        "Cancel the rollout…",
        _MENU,
        _ask("cancel"),
        _unless("cancel"),
        icon="cancel",
        command=_command("cancel"),
    ),
    Action(
        "fleet.rollback",
        "Roll back the rollout…",
        _MENU,
        _ask("rollback"),
        _unless("rollback"),
        icon="rollback",
        command=_command("rollback"),
    ),
)
ENTRY = Entry(
    "fleet",
    "Fleet",
    "fleet",
    FleetPage,
    ACTIONS,
    "Follow the devices of a broker, and roll out bundles to them in waves.",
)
