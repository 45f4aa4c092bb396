"""`edgeopt presets`: the presets, and the one that fits a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt.options import argument

if TYPE_CHECKING:
    from edgeopt.profiles.presets import PresetChoice


class PresetsRequest(msgspec.Struct, frozen=True):
    model: Annotated[
        Path | None, argument("ONNX model to choose a preset for (default: only list them).", metavar="[MODEL]")
    ] = None


class PresetRow(msgspec.Struct, frozen=True):
    name: str
    title: str
    fits: tuple[str, ...]
    """Ways to recognize the family, one per entry."""
    sets: tuple[str, ...]


class PresetList(msgspec.Struct, frozen=True):
    presets: tuple[PresetRow, ...]
    model: str = ""
    chosen: "PresetChoice | None" = None
    """Choice for the model, if one was given and a preset fits it."""


def presets(request: PresetsRequest) -> PresetList:
    from edgeopt.profiles.presets import shipped_presets

    rows = tuple(
        PresetRow(each.name, each.title, tuple(map(str, each.match)), tuple(map(str, each.sizes)))
        for each in shipped_presets()
    )
    if request.model is None:
        return PresetList(rows)
    return PresetList(rows, request.model.name, _chosen(request.model))


def _chosen(path: Path) -> "PresetChoice | None":
    """Chooses a preset as a search without data does."""
    from edgeopt.graph.model import load
    from edgeopt.pipeline.builders.inspect import describe
    from edgeopt.profiles.presets import choose_preset

    facts = describe(load(path))
    chosen = choose_preset(None, facts.layers, facts.inputs, facts.outputs)
    return None if chosen is None else chosen[0].choice(chosen[1], facts.inputs)
