"""The page Graph: the open model as a diagram, coloured by what each node is, costs or takes."""

from functools import partial

from edgeopt.diagram.scene import LEVELS
from edgeopt_gui.actions.action import Action
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.graph.graph_page import GraphPage
from edgeopt_gui.widgets import dialogs


def _choose_bundle_folder(page: GraphPage) -> None:
    path = dialogs.choose_folder(page, "Compare with the bundle in a folder", "bundle")
    if path is not None:
        page.compare_with(path)


ENTRY = Entry(
    "graph",
    "Graph",
    "graph",
    GraphPage,
    (
        Action(
            "graph.measure",
            "Measure the nodes",
            "Graph",
            GraphPage.measure,
            why_not=GraphPage.why_not_measure,
            icon="chart",
            also="profile profiling layers kernels benchmark",
            command=GraphPage.command,
            primary=True,
        ),
        Action(
            "graph.fit",
            "Show the whole graph",
            "Graph",
            lambda page: page.view.canvas.fit(),
            why_not=GraphPage.why_no_graph,
            shortcut="Ctrl+0",
            icon="fit",
        ),
        Action(
            "graph.find",
            "Search the graph",
            "Graph",
            GraphPage.begin_search,
            why_not=GraphPage.why_no_graph,
            shortcut="Ctrl+Shift+F",
            icon="search",
        ),
        Action(
            "graph.colour-by-precision",
            "Colour by precision",
            "Graph",
            lambda page: page.view.choose_colours("precision"),
            why_not=GraphPage.why_no_graph,
            also="int8 eight bits quantized",
        ),
        Action(
            "graph.passes",
            "Step through the rewrites",
            "Graph",
            GraphPage.step_through_passes,
            why_not=GraphPage.why_no_revisions,
            icon="ledger",
            command=GraphPage.command_of_passes,
        ),
        Action(
            "graph.against",
            "Compare with another model…",
            "Graph",
            GraphPage.choose_other,
            why_not=GraphPage.why_no_revisions,
            icon="model",
        ),
        Action(
            "graph.against-folder",
            "Compare with a bundle folder…",
            "Graph",
            _choose_bundle_folder,
            why_not=GraphPage.why_no_revisions,
            icon="folder",
        ),
        Action(
            "graph.in-table",
            "Show the node in the table",
            "Graph",
            lambda page: page.context.go("model"),
            why_not=GraphPage.why_not_in_table,
            shortcut="Ctrl+T",
            icon="table",
        ),
        *(
            Action(
                f"graph.{level}",
                f"Show {level}",
                "Graph",
                partial(GraphPage.show_level, level=level),
                why_not=GraphPage.why_no_graph,
                icon="graph",
            )
            for level in LEVELS
        ),
        Action(
            "graph.export",
            "Export the graph…",
            "Graph",
            GraphPage.export,
            why_not=GraphPage.why_no_graph,
            icon="export",
        ),
    ),
    "See the model as a diagram, where its time goes, and what changed against another model.",
    also="netron diagram network architecture visualize",
)  # fmt: skip
