"""The actions of the page Live, as a table."""

from collections.abc import Callable

from edgeopt.fleet.address import DEFAULT_URL
from edgeopt_gui.actions.action import Action, Face
from edgeopt_gui.agents.access_dialog import AccessDialog
from edgeopt_gui.agents.deploy_dialog import DeployDialog
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.live import situation
from edgeopt_gui.pages.live.live_page import AGENT_URL, LivePage
from edgeopt_gui.pages.live.situation import Situation
from edgeopt_gui.widgets import dialogs
from edgeopt_gui.widgets.ask_text import AskText, ask_whether

_MENU = "Live"
_MAX_LETTERS = 28
_RELEASE_LETTERS = 6


def _when(why_not: Callable[[Situation], str]) -> Callable[[LivePage], str]:
    return lambda page: why_not(page.situation)


def _export_csv(page: LivePage) -> None:
    path = dialogs.choose_save(page, "Export all samples", dialogs.TABLES, "csv", "live.csv")
    if path is not None:
        page.save_csv(path)


def _export_png(page: LivePage) -> None:
    path = dialogs.choose_save(page, "Export a picture of the charts", "Pictures (*.png)", "png", "live.png")
    if path is not None:
        page.save_png(path)


def _ask_for_agent(page: LivePage) -> None:
    known = page.url or page.context.settings.text(AGENT_URL, DEFAULT_URL)
    question = "Address of the agent, for example device:8080"
    settings = page.context.settings
    dialog = AskText(page, "Connect to an agent", question, known, "Connect", settings.agents())
    dialog.submitted.connect(page.connect_to)
    dialog.forgotten.connect(settings.forget_agent)
    dialog.open()


def _ask_for_access(page: LivePage) -> None:
    dialog = AccessDialog(page, page.url)
    dialog.kept.connect(page.connect_to)
    dialog.open()


def _follow(page: LivePage) -> None:
    if page.view is not None:
        page.view.chart.follow()


def _set_budget(page: LivePage) -> None:
    if page.view is not None:
        page.view.runs.edit_budget()


def _remove_budget(page: LivePage) -> None:
    if page.view is not None:
        page.view.runs.set_budget(None)


def _short(name: str) -> str:
    """Returns a name cut in its middle to fit a button."""
    half = _MAX_LETTERS // 2
    return name if len(name) <= _MAX_LETTERS else f"{name[: half - 1]}…{name[-half:]}"


def _face_of_deploy(page: LivePage) -> Face | None:
    bundle = page.context.bundle
    return None if bundle is None or not page.url else Face(f"Deploy {_short(bundle.name)}")


def _face_of_roll_back(page: LivePage) -> Face | None:
    agent = page.situation.agent
    previous = agent.previous if page.url and agent is not None else None
    return None if previous is None else Face(f"Roll back to {previous.release[:_RELEASE_LETTERS]}")


def _ask_to_deploy(page: LivePage) -> None:
    if page.context.bundle is not None:
        DeployDialog(page, page.context, page.context.bundle, url=page.url).open()


def _ask_to_roll_back(page: LivePage) -> None:
    agent, face = page.situation.agent, _face_of_roll_back(page)
    if face is not None:
        serves = agent.serves() if agent is not None else ""
        ask_whether(page, f"{face.title} at {page.url}?", serves, face.title, "Keep this release", page.roll_back)


ACTIONS = (
    Action(
        "live.start",
        "Start watching",
        _MENU,
        LivePage.start,
        _when(situation.why_not_start),
        shortcut="Ctrl+L",
        icon="play",
        command=LivePage.command_of_start,
        primary=True,
        face=lambda page: Face("Resume watching") if page.giving_way.paused_for else None,
    ),
    Action(
        "live.stop",
        "Stop watching",
        _MENU,
        LivePage.stop,
        _when(situation.why_not_stop),
        shortcut="Ctrl+.",
        icon="stop",
    ),
    Action(
        "live.pause",
        "Pause",
        _MENU,
        LivePage.pause,
        _when(situation.why_not_pause),
        shortcut="Ctrl+P",
        icon="pause",
        face=lambda page: Face("Resume", "play") if page.paused_at is not None else None,
    ),
    Action(
        "live.follow",
        "Follow the newest sample",
        _MENU,
        _follow,
        _when(situation.why_not_follow),
        icon="follow",
    ),
    Action(
        "live.budget",
        "Set a latency budget…",
        _MENU,
        _set_budget,
        _when(situation.why_not_draw),
        icon="chart",
    ),
    Action(
        "live.remove-budget",
        "Remove the latency budget",
        _MENU,
        _remove_budget,
        _when(situation.why_not_remove_budget),
        icon="clear",
    ),
    Action("live.clear", "Clear the curves", _MENU, LivePage.clear, _when(situation.why_not_draw), icon="clear"),
    Action(
        "live.csv",
        "Export all samples as CSV…",
        _MENU,
        _export_csv,
        _when(situation.why_not_write),
        shortcut="Ctrl+Shift+E",
        icon="export",
    ),
    Action(
        "live.png",
        "Export a picture of the charts…",
        _MENU,
        _export_png,
        _when(situation.why_not_write),
        shortcut="Ctrl+Shift+S",
        icon="image",
    ),
    Action("live.connect", "Connect to an agent…", _MENU, _ask_for_agent, shortcut="Ctrl+U", icon="connect"),
    Action(
        "live.access",
        "Enter an access token…",
        _MENU,
        _ask_for_access,
        _when(situation.why_not_leave),
        icon="connect",
    ),
    Action(
        "live.disconnect",
        "Disconnect from the agent",
        _MENU,
        LivePage.leave_agent,
        _when(situation.why_not_leave),
        icon="disconnect",
    ),
    Action(
        "live.deploy",
        "Deploy the bundle to the agent",
        _MENU,
        _ask_to_deploy,
        _when(situation.why_not_deploy),
        shortcut="Ctrl+Shift+D",
        icon="deploy",
        command=LivePage.command_of_deploy,
        face=_face_of_deploy,
    ),
    Action(
        "live.rollback",
        "Roll back the agent",
        _MENU,
        _ask_to_roll_back,
        _when(situation.why_not_roll_back),
        shortcut="Ctrl+Shift+R",
        icon="rollback",
        command=LivePage.command_of_roll_back,
        face=_face_of_roll_back,
    ),
)
ENTRY = Entry(
    "live", "Live", "live", LivePage, ACTIONS, "Watch a model, a bundle or an agent run, and deploy to the agent."
)
