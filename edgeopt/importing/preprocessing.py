"""Conversion of a Hugging Face folder's processor to the `--pre` of its bundle, proved on samples."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.bundle.processing.attach import attach
from edgeopt.bundle.processing.run import Processor
from edgeopt.bundle.toml import to_commented_toml
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError
from edgeopt.graph.accuracy import compare_outputs, decibels
from edgeopt.profiles.schema import Data

ALLOWANCE_DB = 45.0
"""Largest amount, in dB, by which preprocessing may agree less than the model.

Libraries resize height and width in different orders and round to one of 256 steps after each, which leaves about
49 dB of photographs; another filter leaves less than 40 dB.
"""
PICTURES, SOUND = "pictures", "sound"
_FILTERS = {2: "bilinear", 3: "bicubic"}
"""Filters by their number in Pillow."""
_WHOLE_FROM = 384
_WITHIN_ROOT = 1e-7
Runs = Sequence[Mapping[str, Array]]


class FolderProcessor(msgspec.Struct, frozen=True):
    """Processor of a folder, as the child reports it; its runs are in files."""

    name: str
    """Name of the processor's class."""
    kind: str
    input: str
    settings: dict[str, Any]


class Preprocessing(msgspec.Struct, frozen=True):
    file: str
    processor: str
    snr_db: float
    samples: int


class UncoveredError(Exception):
    """Reason why a processor is not taken over, as half a sentence."""


def take_over(
    processor: FolderProcessor,
    raw: Runs,
    prepared: Runs,
    inputs: Sequence[TensorInfo],
    floor_db: float,
    folder: Path,
) -> Preprocessing:
    """Writes a file for `--pre` into the folder; raises UncoveredError for a processor that is not covered."""
    file = folder / ("pre.toml" if processor.kind == PICTURES else "pre.onnx")
    if processor.kind == PICTURES:
        file.write_text(_text(processor, picture_steps(processor.settings)), encoding="utf-8")
    else:
        _write_normalization(processor, len(prepared[0][processor.input].shape), file)
    try:
        attached = attach(file, None, inputs, ())
        assert attached is not None and attached.processing.pre is not None  # noqa: S101, PT018 - a file was given
        attached.put(folder)
        name = attached.processing.pre.inputs[0].name
        with closing(Processor(attached.processing, folder, [])) as here:
            got = [here.pre({name: one}) for each in raw for one in each.values()]
    except EdgeoptError as error:
        raise UncoveredError(error.message.replace(f"[data] in '{file.name}'", "it").rstrip(".")) from error
    found = compare_outputs(prepared, got)
    minimum = floor_db - ALLOWANCE_DB
    if found.problem or found.snr_db < minimum:
        reason = (found.problem or "").rstrip(".") or f"edgeopt's steps agree to {decibels(found.snr_db)} only"
        raise UncoveredError(f"{reason}, and {minimum:g} dB are needed")
    return Preprocessing(str(file), processor.name, found.snr_db, len(raw))


def picture_steps(settings: Mapping[str, Any]) -> Data:
    """Converts the settings of an image processor to a [data] table."""
    steps: dict[str, Any] = {}
    if settings.get("do_pad"):
        raise UncoveredError("it pads pictures")
    if settings.get("do_resize"):
        number = settings.get("resample")
        if number not in _FILTERS:
            raise UncoveredError(f"its filter to resize has the number {number}; bilinear and bicubic are known")
        steps |= {"resize": _size(settings.get("size")), "filter": _FILTERS[number], "rounded": True}
        steps |= _cut_by_share(steps["resize"], settings.get("crop_pct"))
    if settings.get("do_center_crop"):
        steps["crop"] = _size(settings.get("crop_size"))
    if settings.get("do_rescale"):
        steps["scale"] = float(settings["rescale_factor"])
    if settings.get("do_normalize"):
        steps |= {"mean": _numbers(settings["image_mean"]), "std": _numbers(settings["image_std"])}
    if settings.get("do_flip_channel_order"):
        steps["colour_order"] = "bgr"
    return msgspec.convert(steps, thread_safe(Data))


def _cut_by_share(size: tuple[int, ...], share: float | None) -> dict[str, Any]:
    """Resizes as ConvNeXT does: small pictures are the middle of larger ones, large ones are only resized."""
    if share is None or len(size) != 1:
        return {}
    side = size[0]
    return {"resize": size * 2} if side >= _WHOLE_FROM else {"resize": (int(side / share),), "crop": size}


def _size(size: object) -> tuple[int, ...]:
    sizes = {k: v for k, v in size.items() if v is not None} if isinstance(size, dict) else {}
    if sizes.keys() == {"height", "width"}:
        return sizes["height"], sizes["width"]
    if sizes.keys() == {"shortest_edge"}:
        return (sizes["shortest_edge"],)
    raise UncoveredError(
        f"its size depends on the picture: {', '.join(f'{k} {v}' for k, v in sizes.items()) or size}"
    )


def _numbers(value: Any) -> tuple[float, ...]:  # noqa: ANN401 - JSON
    return tuple(map(float, value)) if isinstance(value, list | tuple) else (float(value),)


def _text(processor: FolderProcessor, steps: Data) -> str:
    filled = msgspec.structs.replace(steps, input=processor.input)
    default = Data()
    names = [name for name in Data.__struct_fields__ if getattr(filled, name) != getattr(default, name)]
    table = {name: getattr(filled, name) for name in names}
    return to_commented_toml({"data": table}, f"The steps of {processor.name}, for --pre.", {})


def _write_normalization(processor: FolderProcessor, rank: int, file: Path) -> None:
    """Writes a model that gives each recording mean zero and variance one."""
    from onnx import TensorProto, helper, save

    shape = ["batch", *(f"{'samples' if axis == rank - 1 else axis}" for axis in range(1, rank))]
    sound, made = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in (SOUND, processor.input)
    )
    nodes = [
        helper.make_node("ReduceMean", [SOUND], ["mean"], axes=[-1]),
        helper.make_node("Sub", [SOUND, "mean"], ["centred"]),
        helper.make_node("Mul", ["centred", "centred"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["variance"], axes=[-1]),
        helper.make_node("Add", ["variance", "least"], ["above"]),
        helper.make_node("Sqrt", ["above"], ["deviation"]),
        helper.make_node("Div", ["centred", "deviation"], [processor.input]),
    ]
    minimum = helper.make_tensor("least", TensorProto.FLOAT, [], [_WITHIN_ROOT])
    graph = helper.make_graph(nodes, "normalization", [sound], [made], [minimum])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
