"""The actions of the page Precision, as a table."""

from edgeopt_gui.actions.action import Action
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.pages.precision.precision_page import PrecisionPage

_MENU = "Precision"

ACTIONS = (
    Action(
        "precision.start",
        "Plan the precision",
        _MENU,
        PrecisionPage.start,
        PrecisionPage.why_not_start,
        shortcut="Ctrl+Alt+Return",
        icon="play",
        command=PrecisionPage.command,
        primary=True,
        also="quantize quantization int8 bf16 layers sensitivity frontier",
        face=PrecisionPage.face_of_start,
    ),
    Action(
        "precision.cancel",
        "Cancel the plan",
        _MENU,
        PrecisionPage.cancel,
        PrecisionPage.why_not_cancel,
        icon="cancel",
    ),
    Action(
        "precision.floor-of-point",
        "Use its accuracy as the floor",
        _MENU,
        PrecisionPage.use_floor_of_point,
        PrecisionPage.why_not_use_floor,
        icon="check",
    ),
    Action(
        "precision.show-layer",
        "Show the layer in the graph",
        _MENU,
        lambda page: page.show_layer(page.view.layers.current.name),
        PrecisionPage.why_not_show_layer,
        icon="graph",
    ),
    Action(
        "precision.choose-data",
        "Choose data…",
        _MENU,
        PrecisionPage.choose_data,
        PrecisionPage.why_not_set,
        icon="data",
        begins_group=True,
    ),
    Action(
        "precision.choose-folder",
        "Choose a folder of data…",
        _MENU,
        PrecisionPage.choose_data_folder,
        PrecisionPage.why_not_set,
        icon="folder",
    ),
    Action(
        "precision.use-beside",
        "Use the data beside the model",
        _MENU,
        lambda page: page.context.use_data(page.settings.data.beside),
        PrecisionPage.why_not_use_beside,
        icon="data",
    ),
    Action(
        "precision.clear-data",
        "Plan without data",
        _MENU,
        lambda page: page.context.use_data(None),
        PrecisionPage.why_not_clear_data,
        icon="clear",
    ),
    Action(
        "precision.choose-bundle",
        "Write a bundle…",
        _MENU,
        PrecisionPage.choose_bundle,
        PrecisionPage.why_not_set,
        icon="bundle",
        begins_group=True,
    ),
    Action(
        "precision.choose-onnx",
        "Write an ONNX model…",
        _MENU,
        PrecisionPage.choose_onnx,
        PrecisionPage.why_not_set,
        icon="model",
    ),
    Action(
        "precision.no-place",
        "Write nothing",
        _MENU,
        lambda page: page.settings.set_out(None),
        PrecisionPage.why_not_clear_place,
        icon="clear",
    ),
)
ENTRY = Entry(
    "precision",
    "Precision",
    "table",
    PrecisionPage,
    ACTIONS,
    "Plan a scheme for each layer between accuracy and speed, with the reason why a layer stays float.",
    also="quantize quantization int8 sensitivity",
)
