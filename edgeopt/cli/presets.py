"""`edgeopt presets`: what families of models want of a search."""

from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.presets import PresetsRequest
from edgeopt.views.blocks import Block, Row, Table, WordsBlock, columns, filled, section

if TYPE_CHECKING:
    from edgeopt.commands.presets import PresetList


@asks(PresetsRequest)
def presets(request: PresetsRequest, json: JsonFlag = False) -> None:
    """List presets for families of models, or show which one fits a model and why.

    \b
    Without --data, a search generates inputs. A preset gives them the usual sizes of a family of
    models where the model leaves dimensions open. It changes nothing else: with --data or --shape,
    the sizes are yours. `edgeopt optimize --preset none` uses no preset.

    \b
    Examples:
      edgeopt presets
      edgeopt presets model.onnx
      edgeopt optimize model.onnx -o model.edgeopt --preset sentence-encoder
    """
    from edgeopt.commands.presets import presets

    execute("presets", lambda _emit: presets(request), show, json)


def show(result: "PresetList") -> list[Block]:
    rows = []
    for each in result.presets:
        chosen = result.chosen is not None and result.chosen.name == each.name
        cells = (each.name, each.title, "; or ".join(each.fits), "; ".join(each.sets))
        rows.append(Row(cells, "strong" if chosen else ""))
    table = Table(columns("=Preset", "Models", "Condition", "Sizes of generated inputs"), tuple(rows))
    if not result.model:
        return [filled(table)]
    text = f"No preset fits {result.model}."
    if result.chosen is not None:
        text = f"{result.model}: {result.chosen}"
    return [filled(table), section("", WordsBlock(text, "strong"))]
