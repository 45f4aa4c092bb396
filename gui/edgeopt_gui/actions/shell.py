"""The actions of the app itself; their owner is the window."""

from collections.abc import Sequence

from edgeopt_gui.actions.action import Action, Face
from edgeopt_gui.context import MEASURE_DEVICE
from edgeopt_gui.pages.base import Entry

FILE, VIEW, HELP = "File", "View", "Help"
_DEVICE = "Device"

SHELL: tuple[Action, ...] = (
    Action("app.open-model", "Open a model…", FILE, lambda w: w.choose_model(), shortcut="Ctrl+O", icon="open"),
    Action(
        "app.open-bundle",
        "Open a bundle…",
        FILE,
        lambda w: w.choose_bundle(),
        shortcut="Ctrl+Shift+O",
        icon="bundle",
    ),
    Action(
        "app.open-bundle-file",
        "Open a single-file bundle…",
        FILE,
        lambda w: w.choose_bundle_file(),
        icon="bundle",
    ),
    Action("app.import", "Import a model…", FILE, lambda w: w.ask_import(), shortcut="Ctrl+I", icon="open"),
    Action(
        "app.optimize-sample",
        "Optimize the built-in sample",
        FILE,
        lambda w: w.optimize_sample(),
        lambda w: w.why_not_optimize_sample(),
        icon="optimize",
        also="try first example demo",
    ),
    Action("app.open-sample", "Open the built-in sample", FILE, lambda w: w.open_sample(), icon="sample"),
    Action(
        "app.watch-device",
        "Watch a device…",
        FILE,
        lambda w: w.watch_device(),
        lambda w: w.why_no_page("live"),
        icon="connect",
    ),
    Action(
        "app.open-source",
        "Open the source model",
        FILE,
        lambda w: w.open_source(),
        lambda w: w.why_not_open_source(),
        icon="model",
    ),
    Action(
        "app.close",
        "Close the model",
        FILE,
        lambda w: w.close_subject(),
        lambda w: w.why_not_close(),
        shortcut="Ctrl+W",
        icon="close",
    ),
    Action("app.settings", "Settings…", FILE, lambda w: w.show_settings(), shortcut="Ctrl+,", icon="settings"),
    Action("app.quit", "Quit", FILE, lambda w: w.close(), shortcut="Ctrl+Q", icon="quit"),
    Action(
        "app.see-precision",
        "See the precision of each layer in the graph",
        VIEW,
        lambda w: w.see_precision(),
        lambda w: w.why_no_page("graph"),
        icon="graph",
        also="int8 eight bits quantized",
    ),
    Action("app.palette", "Find an action…", VIEW, lambda w: w.show_palette(), shortcut="Ctrl+K", icon="palette"),
    Action(
        "app.log",
        "Show the log",
        VIEW,
        lambda w: w.toggle_log(),
        shortcut="Ctrl+Shift+L",
        icon="log",
        face=lambda w: Face("Hide the log") if not w.log.isHidden() else None,
    ),
    Action("app.reset-layout", "Reset the window layout", VIEW, lambda w: w.reset_layout(), icon="reset"),
    Action(
        "app.copy-command",
        "Copy command line",
        VIEW,
        lambda w: w.copy_command(),
        lambda w: w.why_not_copy_command(),
        shortcut="Ctrl+Shift+C",
        icon="terminal",
    ),
    Action(
        "app.cancel-jobs",
        "Cancel all running jobs",
        VIEW,
        lambda w: w.cancel_jobs(),
        lambda w: w.why_no_jobs(),
        icon="cancel",
    ),
    Action(
        "app.see-device",
        "See what this machine can do",
        _DEVICE,
        lambda w: w.show_page("device"),
        lambda w: w.why_no_page("device"),
        icon="device",
    ),
    Action(
        "app.measure-device",
        "Measure the device",
        _DEVICE,
        lambda w: w.context.measure_device(),
        lambda w: w.context.why_not_measure_device(),
        icon="chart",
        command=lambda _: MEASURE_DEVICE,
        also="benchmark peaks",
    ),
    Action("app.help", "How to use edgeopt", HELP, lambda w: w.show_help(), shortcut="F1", icon="help"),
    Action("app.about", "About edgeopt", HELP, lambda w: w.show_about(), icon="info"),
)
IN_EVERY_PAGE = ("app.copy-command",)


def go_to(place: int, entry: Entry) -> Action:
    """Returns the action that shows a page, with the page's place in the rail as its shortcut."""
    return Action(
        f"app.go-{entry.key}",
        f"Go to {entry.title}",
        VIEW,
        lambda w: w.visit(entry.key),
        shortcut=f"Ctrl+{place}",
        icon=entry.icon,
        also=entry.also,
    )


def of_the_window(entries: Sequence[Entry]) -> tuple[Action, ...]:
    return (*SHELL, *(go_to(place, entry) for place, entry in enumerate(entries, 1)))
