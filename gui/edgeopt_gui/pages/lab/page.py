"""The actions of the page Lab, as a table."""

from edgeopt_gui.actions.action import Action
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.lab.lab_page import LabPage

_MENU = "Lab"

ACTIONS = (
    Action(
        "lab.start",
        "Run the lab",
        _MENU,
        LabPage.start,
        LabPage.why_not_start,
        icon="play",
        command=LabPage.command,
        primary=True,
        also="resume search models devices",
        face=LabPage.face_of_start,
    ),
    Action("lab.cancel", "Cancel the run", _MENU, LabPage.cancel, LabPage.why_not_cancel, icon="cancel"),
    Action(
        "lab.open",
        "Open a lab file…",
        _MENU,
        LabPage.choose_lab,
        LabPage.why_not_open,
        icon="open",
        begins_group=True,
    ),
    Action(
        "lab.results",
        "Choose the folder of the results…",
        _MENU,
        LabPage.choose_results,
        LabPage.why_not_open,
        icon="folder",
    ),
    Action(
        "lab.report",
        "Open the report of the cell",
        _MENU,
        LabPage.report,
        LabPage.why_not_report,
        icon="table",
        begins_group=True,
    ),
)
ENTRY = Entry(
    "lab",
    "Lab",
    "chart",
    LabPage,
    ACTIONS,
    "Search for several models on several devices, and see the results in one table.",
)
