"""The actions of the page Compare, as a table."""

from edgeopt_gui.actions.action import Action
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.compare.compare_page import ComparePage

_MENU = "Compare"

ACTIONS = (
    Action(
        "compare.start",
        "Compare",
        _MENU,
        ComparePage.start,
        ComparePage.why_not_start,
        shortcut="Ctrl+Shift+Return",
        icon="play",
        command=ComparePage.command,
        primary=True,
        also="sensitivity accuracy layers difference benchmark",
        face=ComparePage.face_of_start,
    ),
    Action(
        "compare.cancel",
        "Cancel the comparison",
        _MENU,
        ComparePage.cancel,
        ComparePage.why_not_cancel,
        icon="cancel",
    ),
    Action(
        "compare.choose-a",
        "Choose side A…",
        _MENU,
        lambda page: page.choose(0),
        ComparePage.why_not_set,
        icon="model",
        begins_group=True,
    ),
    Action(
        "compare.choose-a-folder",
        "Choose a bundle folder as side A…",
        _MENU,
        lambda page: page.choose(0, folder=True),
        ComparePage.why_not_set,
        icon="folder",
    ),
    Action(
        "compare.choose-b",
        "Choose side B…",
        _MENU,
        lambda page: page.choose(1),
        ComparePage.why_not_set,
        icon="model",
    ),
    Action(
        "compare.choose-b-folder",
        "Choose a bundle folder as side B…",
        _MENU,
        lambda page: page.choose(1, folder=True),
        ComparePage.why_not_set,
        icon="folder",
    ),
    Action(
        "compare.swap",
        "Swap the sides",
        _MENU,
        ComparePage.swap,
        ComparePage.why_not_swap,
    ),
    Action(
        "compare.deploy",
        "Deploy the bundle…",
        _MENU,
        ComparePage.deploy,
        ComparePage.why_not_deploy,
        icon="deploy",
    ),
    Action(
        "compare.show-layer",
        "Show the layer in the graph",
        _MENU,
        ComparePage.show_current_layer,
        ComparePage.why_not_show_layer,
        icon="graph",
        begins_group=True,
    ),
)
ENTRY = Entry(
    "compare",
    "Compare",
    "compare",
    ComparePage,
    ACTIONS,
    "Compare two models, bundles or saved reports: speed, memory, size, outputs and layers.",
)
