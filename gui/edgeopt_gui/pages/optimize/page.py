"""The page Optimize: what it offers, as a table."""

from edgeopt_gui.actions.action import Action
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.optimize.optimize_page import OptimizePage

_MENU = "Optimize"
ACTIONS = (
    Action(
        "optimize.start",
        "Start the search",
        _MENU,
        OptimizePage.start,
        OptimizePage.why_not_start,
        shortcut="Ctrl+Return",
        icon="play",
        command=OptimizePage.command_of_start,
        primary=True,
        face=OptimizePage.face_of_start,
    ),
    Action(
        "optimize.cancel",
        "Cancel the search",
        _MENU,
        OptimizePage.cancel,
        OptimizePage.why_not_cancel,
        shortcut="Shift+Esc",
        icon="cancel",
    ),
    Action(
        "optimize.save",
        "Save the bundle as…",
        _MENU,
        OptimizePage.save,
        OptimizePage.why_not_save,
        shortcut="Ctrl+S",
        icon="save",
    ),
    Action(
        "optimize.export",
        "Export deployment.toml…",
        _MENU,
        OptimizePage.export,
        OptimizePage.why_not_save,
        shortcut="Ctrl+E",
        icon="export",
    ),
    Action(
        "optimize.live",
        "Watch the bundle live",
        _MENU,
        OptimizePage.watch_live,
        OptimizePage.why_not_watch,
        icon="live",
    ),
    Action(
        "optimize.choose-data",
        "Choose data…",
        _MENU,
        OptimizePage.choose_data,
        OptimizePage.why_not_data,
        shortcut="Ctrl+D",
        icon="data",
    ),
    Action(
        "optimize.choose-folder",
        "Choose a folder of data…",
        _MENU,
        OptimizePage.choose_data_folder,
        OptimizePage.why_not_data,
        icon="folder",
    ),
    Action(
        "optimize.clear-data",
        "Search without data",
        _MENU,
        OptimizePage.clear_data,
        OptimizePage.why_not_clear,
        icon="clear",
    ),
)
ENTRY = Entry("optimize", "Optimize", "optimize", OptimizePage, ACTIONS)
