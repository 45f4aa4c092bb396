"""The actions of the page Optimize, as a table."""

from collections.abc import Callable

from edgeopt_gui.actions.action import Action
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.optimize import situation
from edgeopt_gui.pages.optimize.optimize_page import OptimizePage
from edgeopt_gui.pages.optimize.situation import Situation

_MENU = "Optimize"


def _when(why_not: Callable[[Situation], str]) -> Callable[[OptimizePage], str]:
    return lambda page: why_not(page.situation)


ACTIONS = (
    Action(
        "optimize.start",
        "Start the search",
        _MENU,
        OptimizePage.start,
        _when(situation.why_not_start),
        shortcut="Ctrl+Return",
        icon="play",
        command=OptimizePage.command_of_start,
        primary=True,
        also="quantize quantization int8 compress prune accelerate",
        face=OptimizePage.face_of_start,
    ),
    Action(
        "optimize.cancel",
        "Cancel the search",
        _MENU,
        OptimizePage.cancel,
        _when(situation.why_not_cancel),
        shortcut="Shift+Esc",
        icon="cancel",
    ),
    Action(
        "optimize.stop",
        "Stop and keep the best so far",
        _MENU,
        OptimizePage.stop,
        _when(situation.why_not_stop),
        icon="stop",
    ),
    Action(
        "optimize.fresh",
        "Measure again",
        _MENU,
        OptimizePage.measure_again,
        _when(situation.why_not_measure_again),
        icon="refresh",
    ),
    Action(
        "optimize.longer",
        "Search longer",
        _MENU,
        OptimizePage.search_longer,
        _when(situation.why_not_measure_again),
        icon="play",
    ),
    Action(
        "optimize.pick",
        "Deliver the chosen candidate",
        _MENU,
        OptimizePage.pick,
        _when(situation.why_not_pick),
        icon="check",
    ),
    Action(
        "optimize.save",
        "Save the bundle as…",
        _MENU,
        lambda page: page.delivery.save(),
        _when(situation.why_not_save),
        shortcut="Ctrl+S",
        icon="save",
        begins_group=True,
    ),
    Action(
        "optimize.report",
        "Write a report…",
        _MENU,
        lambda page: page.delivery.report(),
        _when(situation.why_not_hand),
        icon="ledger",
    ),
    Action(
        "optimize.export-as",
        "Export the bundle…",
        _MENU,
        OptimizePage.offer_forms,
        _when(situation.why_not_hand),
        icon="export",
    ),
    Action(
        "optimize.export",
        "Export deployment.toml…",
        _MENU,
        lambda page: page.delivery.export(),
        _when(situation.why_not_save),
        shortcut="Ctrl+E",
    ),
    Action(
        "optimize.replay",
        "Rebuild the bundle without searching…",
        _MENU,
        lambda page: page.delivery.replay(),
        _when(situation.why_not_hand),
    ),
    Action(
        "optimize.live",
        "Watch the bundle live",
        _MENU,
        lambda page: page.delivery.watch_live(),
        _when(situation.why_not_use),
        icon="live",
        begins_group=True,
    ),
    Action(
        "optimize.deploy",
        "Deploy the bundle…",
        _MENU,
        lambda page: page.delivery.deploy(),
        _when(situation.why_not_use),
        icon="deploy",
    ),
    Action(
        "optimize.compare",
        "Compare with the source",
        _MENU,
        lambda page: page.delivery.compare(),
        _when(situation.why_not_use),
        icon="compare",
    ),
    Action(
        "optimize.choose-data",
        "Choose data…",
        _MENU,
        OptimizePage.choose_data,
        _when(situation.why_not_set),
        shortcut="Ctrl+D",
        icon="data",
        begins_group=True,
    ),
    Action(
        "optimize.choose-folder",
        "Choose a folder of data…",
        _MENU,
        OptimizePage.choose_data_folder,
        _when(situation.why_not_set),
        icon="folder",
    ),
    Action(
        "optimize.use-beside",
        "Use the data beside the model",
        _MENU,
        lambda page: page.use_data(page.panel.data.beside),
        _when(situation.why_not_use_beside),
        icon="data",
    ),
    Action(
        "optimize.clear-data",
        "Search without data",
        _MENU,
        OptimizePage.clear_data,
        _when(situation.why_not_clear_data),
        icon="clear",
    ),
    Action(
        "optimize.choose-today",
        "Choose what runs today…",
        _MENU,
        lambda page: page.panel.today.choose(),
        _when(situation.why_not_set),
        icon="bundle",
        begins_group=True,
    ),
    Action(
        "optimize.choose-today-folder",
        "Choose the bundle folder that runs today…",
        _MENU,
        lambda page: page.panel.today.choose_folder(),
        _when(situation.why_not_set),
        icon="folder",
    ),
    Action(
        "optimize.clear-today",
        "Nothing runs today",
        _MENU,
        lambda page: page.panel.today.set(None),
        _when(situation.why_not_clear_today),
        icon="clear",
    ),
    Action(
        "optimize.plan",
        "Plan for another device…",
        _MENU,
        OptimizePage.plan,
        _when(situation.why_not_plan),
        begins_group=True,
    ),
)
ENTRY = Entry(
    "optimize",
    "Optimize",
    "optimize",
    OptimizePage,
    ACTIONS,
    "Choose data and an accuracy floor, start the search, and save or deploy the winning bundle.",
)
