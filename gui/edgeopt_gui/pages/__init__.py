"""Pages of the app, a folder each, and `PAGES`, the table of them in the order of work."""

from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.compare.page import ENTRY as COMPARE
from edgeopt_gui.pages.device.page import ENTRY as DEVICE
from edgeopt_gui.pages.fleet.page import ENTRY as FLEET
from edgeopt_gui.pages.graph.page import ENTRY as GRAPH
from edgeopt_gui.pages.lab.page import ENTRY as LAB
from edgeopt_gui.pages.live.page import ENTRY as LIVE
from edgeopt_gui.pages.model.page import ENTRY as MODEL
from edgeopt_gui.pages.optimize.page import ENTRY as OPTIMIZE
from edgeopt_gui.pages.precision.page import ENTRY as PRECISION

PAGES: tuple[Entry, ...] = (DEVICE, MODEL, GRAPH, OPTIMIZE, PRECISION, COMPARE, LIVE, FLEET, LAB)
