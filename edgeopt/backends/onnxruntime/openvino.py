"""ONNX Runtime on Intel's devices, by its OpenVINO provider. OpenVINO itself is `edgeopt.backends.openvino`."""

import json
import re
from pathlib import Path
from typing import Annotated, Literal

from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.options import Count, OrtOptions
from edgeopt.backends.onnxruntime.provider import Provider, Settings
from edgeopt.backends.options import about
from edgeopt.errors import UsageError

_NAME = "onnxruntime-openvino"
_ONE = r"(CPU|GPU(\.\d+)?|NPU)"
_DEVICES = re.compile(rf"{_ONE}|AUTO|(AUTO|HETERO|MULTI):{_ONE}(,{_ONE})+")


class OpenVinoProviderOptions(OrtOptions, frozen=True):
    device_type: Annotated[
        str, about("`CPU`, `GPU`, `GPU.1`, `NPU`, `AUTO:GPU,CPU`, `HETERO:GPU,CPU`, `MULTI:GPU,CPU`")
    ] = "CPU"
    performance_hint: Annotated[
        Literal["latency", "throughput"],
        about("Optimize for latency or for throughput", search=("latency", "throughput")),
    ] = "latency"
    precision: Annotated[
        Literal["", "f32", "f16", "bf16"],
        about("Inference precision, if the device supports it; '': OpenVINO's default", search=("f32", "bf16")),
    ] = ""
    num_streams: Annotated[Count, about("Concurrent requests; 0: OpenVINO's default")] = 0
    cache_dir: Annotated[str, about("Folder for compiled models, for faster loading")] = ""
    disable_dynamic_shapes: Annotated[bool, about("Compiles for the shapes of each run", search=(False, True))] = (
        False
    )
    reshape_input: Annotated[str, about("Bounds of open shapes on an NPU: `input[1..10,3,224,224]`")] = ""
    layout: Annotated[str, about("Layout of inputs and outputs: `input[NCHW]`")] = ""
    load_config: Annotated[
        str, about('Other OpenVINO properties as JSON, by device: `{"CPU": {"NUM_STREAMS": "2"}}`')
    ] = ""


def settings(options: OpenVinoProviderOptions, _model: Path) -> Settings:
    """Its own options for threads, streams and precision are deprecated: properties go through one JSON text.

    The provider looks there for each device by its full name, and for the mode (AUTO, MULTI); it
    ignores other keys in silence.
    """
    # It takes any word for a device, and then runs nothing on it.
    if not _DEVICES.fullmatch(options.device_type):
        raise UsageError(
            f"The option 'device_type' of {_NAME} is not an OpenVINO device: '{options.device_type}'.",
            "Use CPU, GPU, GPU.1, NPU, AUTO:GPU,CPU, HETERO:GPU,CPU or MULTI:GPU,CPU.",
        )
    given = _given(options.load_config)
    if options.device_type == "AUTO":
        _refuse_for_auto(options)
        return {"device_type": "AUTO"}
    mode, _, listed = options.device_type.rpartition(":")
    if options.num_streams and (mode or listed == "NPU"):
        raise UsageError(
            f"The option 'num_streams' of {_NAME} cannot be set for {options.device_type}.",
            "Leave it out: OpenVINO's own choice goes by 'performance_hint'.",
        )
    own = {device: _own(options, device) for device in listed.split(",")}
    if mode in {"AUTO", "MULTI"}:
        own[mode] = {"PERFORMANCE_HINT": options.performance_hint.upper()}
    properties = given | {name: part | given.get(name, {}) for name, part in own.items()}
    return {"device_type": options.device_type, "load_config": json.dumps(properties)}


def _own(options: OpenVinoProviderOptions, device: str) -> dict[str, str]:
    own = {"PERFORMANCE_HINT": options.performance_hint.upper()}
    if options.threads and device == "CPU":
        own["INFERENCE_NUM_THREADS"] = str(options.threads)
    if options.precision:
        own["INFERENCE_PRECISION_HINT"] = options.precision
    if options.num_streams:
        own["NUM_STREAMS"] = str(options.num_streams)
    if options.cache_dir:
        own["CACHE_DIR"] = options.cache_dir
    return own


def _refuse_for_auto(options: OpenVinoProviderOptions) -> None:
    """With AUTO and no list the provider takes no properties at all: it fails on any text that it is given."""
    names = ("performance_hint", "precision", "num_streams", "cache_dir", "load_config")
    usual = OpenVinoProviderOptions()
    chosen = [name for name in names if getattr(options, name) != getattr(usual, name)]
    if chosen:
        raise UsageError(
            f"The option '{chosen[0]}' of {_NAME} cannot be set for AUTO without a list of devices.",
            "Name the devices: AUTO:GPU,CPU.",
        )


def _given(text: str) -> dict[str, dict[str, str]]:
    try:
        given = json.loads(text or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(isinstance(part, dict) for part in given.values()):
        raise UsageError(
            f"The option 'load_config' of {_NAME} is not a JSON object of properties by device.",
            'Write it like this: {"CPU": {"NUM_STREAMS": "2"}}.',
        )
    return given


PROVIDER = Provider(
    name=_NAME,
    title="ONNX Runtime, OpenVINO",
    key="OpenVINOExecutionProvider",
    options=OpenVinoProviderOptions,
    distributions=("onnxruntime-openvino",),
    systems=("Linux", "Windows"),
    true="True",
    false="False",
    unsent=("device_type", "performance_hint", "precision", "num_streams", "cache_dir", "load_config"),
    more=settings,
    converts_within=True,
)
BACKEND = backend_of(PROVIDER)
