"""ONNX Runtime's providers CoreML, DirectML, OpenVINO, QNN and XNNPACK, with their options and backends."""

import json
import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt.backends.base import EightBits
from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.options import Count, OrtOptions
from edgeopt.backends.onnxruntime.provider import Provider, Settings
from edgeopt.backends.options import Threads, about
from edgeopt.errors import UsageError
from edgeopt.hw.provider_wheels import OPENVINO, QNN


class CoremlOptions(OrtOptions, frozen=True):
    ModelFormat: Annotated[
        Literal["", "NeuralNetwork", "MLProgram"],
        about(
            "MLProgram (from macOS 12 on) supports more operators; NeuralNetwork loads faster",
            search=("MLProgram", "NeuralNetwork"),
        ),
    ] = ""
    MLComputeUnits: Annotated[
        Literal["ALL", "CPUOnly", "CPUAndGPU", "CPUAndNeuralEngine"],
        about("Allowed compute units", search=("ALL", "CPUAndGPU", "CPUAndNeuralEngine")),
    ] = "ALL"
    RequireStaticInputShapes: Annotated[
        bool,
        about("Only nodes with known shapes; others would be compiled again for each size", search=(False, True)),
    ] = False
    EnableOnSubgraphs: Annotated[bool, about("Also runs nodes in the bodies of Loop, Scan and If")] = False
    SpecializationStrategy: Annotated[
        Literal["Default", "FastPrediction"],
        about("Faster runs, slower loading, from macOS 15 on", search=("Default", "FastPrediction")),
    ] = "Default"
    AllowLowPrecisionAccumulationOnGPU: Annotated[bool, about("Accumulates in half precision on the GPU")] = False
    ProfileComputePlan: Annotated[bool, about("Logs which unit runs each operator")] = False
    ModelCacheDirectory: Annotated[
        str,
        about(
            "Folder for compiled models; empty: none. Models are identified by path, so empty it when a file "
            "changes"
        ),
    ] = ""


COREML_PROVIDER = Provider(
    name="onnxruntime-coreml",
    title="ONNX Runtime, CoreML",
    key="CoreMLExecutionProvider",
    options=CoremlOptions,
    distributions=("onnxruntime",),
    systems=("Darwin",),
    extra="cpu",
    eight_bits=EightBits("none"),
)
COREML_BACKEND = backend_of(COREML_PROVIDER)


class DirectmlOptions(OrtOptions, frozen=True):
    # The provider refuses a session with any other value of these two.
    memory_pattern: Annotated[bool, about("Must be false for DirectML")] = False
    execution_mode: Annotated[Literal["sequential"], about("Must be sequential for DirectML")] = "sequential"
    device_id: Annotated[Count | None, about("Adapter number in DXGI's order; empty: by preference")] = None
    performance_preference: Annotated[
        Literal["default", "high_performance", "minimum_power"], about("Preferred adapter")
    ] = "default"
    device_filter: Annotated[Literal["gpu", "npu", "any"], about("Adapter type")] = "gpu"
    disable_metacommands: Annotated[
        bool,
        about(
            "Disables the driver's own kernels: usually slower, but correct on some drivers", search=(False, True)
        ),
    ] = False


def directml_settings(options: DirectmlOptions, _model: Path) -> Settings:
    if options.memory_pattern:
        raise UsageError(
            "The option 'memory_pattern' of onnxruntime-directml must be false.",
            "Leave it out: DirectML does without.",
        )
    return {}


DIRECTML_PROVIDER = Provider(
    name="onnxruntime-directml",
    title="ONNX Runtime, DirectML",
    key="DmlExecutionProvider",
    options=DirectmlOptions,
    distributions=("onnxruntime-directml",),
    systems=("Windows",),
    extra="directml",
    true="true",
    false="false",
    more=directml_settings,
    eight_bits=EightBits("through", transposed=False),
)
DIRECTML_BACKEND = backend_of(DIRECTML_PROVIDER)


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


def openvino_wheel_devices(options: OpenVinoProviderOptions) -> tuple[str, ...]:
    """Returns the device to select in the separate wheel, which ignores `device_type` and takes one device."""
    if not re.fullmatch(_ONE, options.device_type):
        raise UsageError(
            f"{OPENVINO.distribution} runs on one device, not on {options.device_type}.",
            "Set 'device_type' to CPU, GPU, GPU.1 or NPU, or use the backend openvino-auto.",
        )
    # With one GPU its name has no number.
    return {"GPU": ("GPU", "GPU.0"), "GPU.0": ("GPU.0", "GPU")}.get(options.device_type, (options.device_type,))


def openvino_settings(options: OpenVinoProviderOptions, _model: Path) -> Settings:
    """Returns the settings of the provider, with the OpenVINO properties as one JSON text, because its options for
    threads, streams and precision are deprecated.

    The provider looks up each device by its full name, and the mode (AUTO, MULTI); it silently ignores other keys.
    """
    # The provider accepts any word as a device, and then runs nothing on it.
    if not _DEVICES.fullmatch(options.device_type):
        raise UsageError(
            f"The option 'device_type' of {_NAME} is not an OpenVINO device: '{options.device_type}'.",
            "Use CPU, GPU, GPU.1, NPU, AUTO:GPU,CPU, HETERO:GPU,CPU or MULTI:GPU,CPU.",
        )
    configured = _read_load_config(options.load_config)
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
    properties = configured | {name: part | configured.get(name, {}) for name, part in own.items()}
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
    """Raises a UsageError for options with AUTO and no device list: the provider fails on any property."""
    names = ("performance_hint", "precision", "num_streams", "cache_dir", "load_config")
    usual = OpenVinoProviderOptions()
    chosen = [name for name in names if getattr(options, name) != getattr(usual, name)]
    if chosen:
        raise UsageError(
            f"The option '{chosen[0]}' of {_NAME} cannot be set for AUTO without a list of devices.",
            "Name the devices: AUTO:GPU,CPU.",
        )


def _read_load_config(text: str) -> dict[str, dict[str, str]]:
    try:
        configured = json.loads(text or "{}")
    except ValueError:
        configured = None
    if not isinstance(configured, dict) or not all(isinstance(part, dict) for part in configured.values()):
        raise UsageError(
            f"The option 'load_config' of {_NAME} is not a JSON object of properties by device.",
            'Write it like this: {"CPU": {"NUM_STREAMS": "2"}}.',
        )
    return configured


OPENVINO_PROVIDER = Provider(
    name=_NAME,
    title="ONNX Runtime, OpenVINO",
    key="OpenVINOExecutionProvider",
    options=OpenVinoProviderOptions,
    distributions=("onnxruntime-openvino",),
    wheel=OPENVINO,
    wheel_devices=openvino_wheel_devices,
    not_in_wheel=("disable_dynamic_shapes", "layout"),
    systems=("Linux", "Windows"),
    true="True",
    false="False",
    unsent=("device_type", "performance_hint", "precision", "num_streams", "cache_dir", "load_config"),
    more=openvino_settings,
    converts_within=True,
    # OpenVINO removes 16-bit pairs on CPUs, so a result there does not apply to other runtimes.
    eight_bits=EightBits("inputs", sixteen=False),
)
OPENVINO_BACKEND = backend_of(OPENVINO_PROVIDER)


class QnnOptions(OrtOptions, frozen=True):
    backend_type: Annotated[
        Literal["htp", "gpu", "cpu"], about("Hexagon tensor processor, Adreno GPU, or CPU reference")
    ] = "htp"
    htp_performance_mode: Annotated[
        Literal[
            "default", "burst", "balanced", "high_performance", "sustained_high_performance", "high_power_saver",
            "power_saver", "low_balanced", "low_power_saver", "extreme_power_saver",
        ],
        about("Clock of the NPU: short peak, sustained, or low power",
              search=("burst", "sustained_high_performance")),
    ] = "default"  # fmt: skip
    htp_graph_finalization_optimization_mode: Annotated[
        Literal["0", "1", "2", "3"], about("Graph optimization effort when loading; 3: most", search=("0", "3"))
    ] = "0"
    qnn_context_priority: Annotated[
        Literal["low", "normal", "normal_high", "high"], about("Priority over other models on the NPU")
    ] = "normal"
    rpc_control_latency: Annotated[
        Count | None, about("Maximum latency of a call to the NPU, in µs; empty: QNN's default")
    ] = None
    vtcm_mb: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        about("Fast memory of the NPU to use, in MiB; empty: QNN's default"),
    ] = None
    enable_htp_fp16_precision: Annotated[bool, about("Runs float32 models in half precision on the NPU")] = True
    offload_graph_io_quantization: Annotated[
        bool, about("Quantizes inputs and outputs on the CPU instead of the NPU", search=(True, False))
    ] = True
    enable_htp_spill_fill_buffer: Annotated[bool, about("Parts of a model share a buffer")] = False
    enable_htp_shared_memory_allocator: Annotated[
        bool, about("Inputs and outputs in memory shared with the NPU; needs Qualcomm's libcdsprpc")
    ] = False
    soc_model: Annotated[Count, about("Chip number, to prepare for another chip")] = 0
    htp_arch: Annotated[Literal["0", "68", "69", "73", "75", "81"], about("NPU generation; 0: this one")] = "0"
    device_id: Annotated[Count, about("NPU number")] = 0


def qnn_settings(options: QnnOptions, _model: Path) -> Settings:
    return {"backend_type": options.backend_type}


def qnn_wheel_devices(options: QnnOptions) -> tuple[str, ...]:
    """Returns the devices to select, in order: on another processor, the NPU's simulator is listed as a CPU."""
    first = {"htp": "NPU", "gpu": "GPU", "cpu": "CPU"}[options.backend_type]
    return (first, "NPU", "CPU", "GPU")


QNN_PROVIDER = Provider(
    name="onnxruntime-qnn",
    title="ONNX Runtime, QNN",
    key="QNNExecutionProvider",
    options=QnnOptions,
    distributions=(),
    wheel=QNN,
    wheel_devices=qnn_wheel_devices,
    unsent=("backend_type",),
    more=qnn_settings,
    channels_last=True,
    # onnxruntime.ai, "QNN Execution Provider": the HTP backend runs models whose operators are all in Q/DQ pairs.
    eight_bits=EightBits("through", everywhere=True),
)
QNN_BACKEND = backend_of(QNN_PROVIDER)


class XnnpackOptions(OrtOptions, frozen=True):
    # XNNPACK has its own threads, which spinning threads of the runtime would slow down.
    spinning: Annotated[
        bool, about("Waiting threads of the runtime spin on cores that XNNPACK's threads need")
    ] = False
    intra_op_num_threads: Annotated[Threads, about("XNNPACK's threads; 0: as `threads`", search=(0, 1))] = 0


def xnnpack_settings(options: XnnpackOptions, _model: Path) -> Settings:
    threads = options.intra_op_num_threads or options.threads
    return {"intra_op_num_threads": str(threads)} if threads else {}


XNNPACK_PROVIDER = Provider(
    name="onnxruntime-xnnpack",
    title="ONNX Runtime, XNNPACK",
    key="XnnpackExecutionProvider",
    options=XnnpackOptions,
    distributions=(),
    unsent=("intra_op_num_threads",),
    more=xnnpack_settings,
    on_processor=True,
    channels_last=True,
    # It takes some of these nodes over from the CPU provider.
    eight_bits=EightBits("through", transposed=False),
)
XNNPACK_BACKEND = backend_of(XNNPACK_PROVIDER)
