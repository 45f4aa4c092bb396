"""`openvino-ir`: the model as OpenVINO's own .xml and .bin, made by its own converter."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.openvino.model import read_model, write_model
from edgeopt.commands.export.base import ExportedFiles, ExportJob, Format, check_model, refuse
from edgeopt.commands.export.settings import DEVICES, openvino_lines, openvino_settings, options_text
from edgeopt.errors import EdgeoptError, MissingError, ModelError, VerificationError, no_room

if TYPE_CHECKING:
    from openvino import Model

NAME = "openvino-ir"
_MIN_FREE_BYTES = 1 << 20
"""A disk with less is taken for full where writing failed without a reason."""
# The options that OpenVINO takes from the model itself, as it reads `runtime_options` in the .xml.
_IN_THE_MODEL = {
    "dynamic_quantization_group_size": "DYNAMIC_QUANTIZATION_GROUP_SIZE",
    "kv_cache_precision": "KV_CACHE_PRECISION",
}


def write(job: ExportJob, folder: Path) -> ExportedFiles:
    model = converted(job, NAME)
    place = save(job, model, folder / f"{job.file_name}.xml")
    name = place.name
    if job.backend not in DEVICES:
        made = ExportedFiles(
            use=["import openvino", "core = openvino.Core()", f"model = core.read_model({name!r})"]
        )
        _check_elsewhere(job, made, place)
        return made
    settings = openvino_settings(job)
    made = ExportedFiles(use=openvino_lines(settings, name))
    if settings.shapes:
        made.notes.append(
            "Its shapes are open, as in the bundle; the bundle's speed needs the inputs fixed to these "
            "shapes before compiling."
        )
    carried = [name for name in _IN_THE_MODEL if name in job.bundle.deployment.run.options]
    if carried:
        made.notes.append(f"Carried in the .xml itself: {', '.join(carried)}.")
    made.notes.append(
        f"The other options are for compiling: the code in README.md sets them ({options_text(job)})."
    )
    check_model(job, made, place, job.backend, job.bundle.deployment.run.options)
    return made


def converted(job: ExportJob, format_name: str) -> "Model":
    """Returns the bundle's model as OpenVINO reads it; refuses it if OpenVINO cannot."""
    try:
        return read_model(job.bundle.model)
    except MissingError:
        raise
    except ModelError as error:
        raise refuse(
            job,
            format_name,
            error.message.rstrip("."),
            "It may have operators specific to ONNX Runtime: use --to onnx or --to runner.",
        ) from error


def save(job: ExportJob, model: "Model", place: Path) -> Path:
    """Writes the .xml and the .bin, weights as they are, each input and output with the one name that it has."""
    for option, key in _IN_THE_MODEL.items():
        value = job.bundle.deployment.run.options.get(option)
        if value not in (None, ""):
            model.set_rt_info(str(value), ["runtime_options", key])
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_model(model, place)
    except RuntimeError as error:
        # OpenVINO's streams do not tell why they end.
        if shutil.disk_usage(place.parent).free < _MIN_FREE_BYTES:
            raise no_room(place) from error
        raise
    return place


def _check_elsewhere(job: ExportJob, made: ExportedFiles, place: Path) -> None:
    """Checks a bundle of another runtime: OpenVINO's own choice of precision may be too coarse for it."""
    made.notes.append(
        f"The bundle runs with {job.backend}; its speed in OpenVINO is unknown; measure it with `edgeopt bench`."
    )
    precise = {"precision": "f32"}
    try:
        check_model(job, made, place, "openvino-cpu", {})
        made.use.append('compiled = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY"})')
    except VerificationError as error:
        try:
            check_model(job, made, place, "openvino-cpu", precise)
        except EdgeoptError:
            raise error from None
        made.notes.append(
            "It must compute in f32: the precision OpenVINO chooses on this device is too inaccurate."
        )
        made.use.append(
            'compiled = core.compile_model(model, "CPU", '
            '{"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})'
        )


FORMAT = Format(NAME, "The model as OpenVINO's .xml and .bin, by OpenVINO's own converter", write)
