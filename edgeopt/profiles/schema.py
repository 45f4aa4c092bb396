"""Tables and words of a target profile, except passes and backends, which have registries."""

from typing import Annotated, NamedTuple

import msgspec

from edgeopt.errors import pip_install

SCHEMA = 1

Value = str | bool | int | float
Values = Annotated[tuple[Value, ...], msgspec.Meta(min_length=1)]
Names = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
Pixels = Annotated[int, msgspec.Meta(ge=1, le=65536)]
# Not `int | tuple[...]`: msgspec 0.22 crashes on a number with limits beside a tuple.
Size = Annotated[tuple[Pixels, ...], msgspec.Meta(max_length=2)]


class AcceleratorNeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An accelerator that the device must have, ready to use."""

    kind: str
    vendors: tuple[str, ...] = ()
    """Accepted vendors; empty: any."""
    api: str = ""
    """API that can drive it, by the probe's name; empty: any."""


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requirements of a target on the device; an empty list requires nothing."""

    architectures: tuple[str, ...]
    simd: tuple[str, ...]
    """Instruction sets that are all required."""
    rank: int
    """Rank of the target; of those that fit a device, the one with the highest rank is chosen."""
    os: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    """Runtimes that are all required: distributions, execution providers, or `openvino:DEVICE`."""
    accelerator: AcceleratorNeed | None = None


class Graph(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    passes: str | Names
    """`default`, or the passes by name."""
    layout: str = "source"
    """`source`: the model's own; the runtimes re-order in blocks of their own when they load it."""


class Precision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ladder: Names
    """The variants to try, in this order."""


class Quantization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    activation_type: str
    weight_type: str
    reduce_range: bool
    per_channel: bool
    calibration: str = "minmax"
    """Method by which ONNX Runtime finds the ranges of activations; NNCF has its own."""


class BackendOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    order: Names
    """The first is what the target is about."""


class Search(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    time_limit_s: Annotated[float, msgspec.Meta(gt=0)]
    max_candidates: Annotated[int, msgspec.Meta(ge=1)]


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conversion of pictures into a model's input; the steps are in order."""

    input: str = ""
    """The input that takes the pictures; empty: the model's only one."""
    most_samples: Annotated[int, msgspec.Meta(ge=1)] = 256
    """The most pictures of a folder, evenly spread over the sorted names."""
    resize: Size = ()
    """One number: the shorter side, the other in proportion; two: height and width; none: as they are."""
    letter_box: Size = ()
    """The picture fits in here with its aspect; the rest is filled. One number: a square, two: height, width."""
    fill: Annotated[float, msgspec.Meta(ge=0, le=255)] = 114.0
    """Fill value for the rest of a letter-box, as a value of the picture."""
    place: str = "middle"
    """Position of the picture in its letter-box."""
    filter: str = "bilinear"
    rounded: bool = False
    """Resized values are whole numbers, those of Pillow 13."""
    crop: Size = ()
    """Size of the middle that is kept. One number: a square; two: height and width; none: everything."""
    colour_order: str = "rgb"
    scale: float = 1.0
    """Each value, 0 to 255, is multiplied by this ..."""
    mean: tuple[float, ...] = ()
    """... then this is taken off, one number or one a channel ..."""
    std: tuple[Annotated[float, msgspec.Meta(gt=0)], ...] = ()
    """... and the rest is divided by this."""
    layout: str = "nchw"
    dtype: str = "float32"


class TargetProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    title: str
    match: Match
    graph: Graph
    precision: Precision
    quantization: Quantization
    backends: BackendOrder
    runtime: dict[str, dict[str, Values]]
    """Backend, option, values to try; a `threads` of 0 means all usable cores."""
    search: Search
    lowerings: dict[str, tuple[str, ...]] = {}
    """Backend, the rewrites into what its runtime alone knows, in the order in which they are done."""
    needs: dict[str, tuple[str, ...]] = {}
    """Runtime values that are only tried on a CPU that has all of these: `{"bf16": ("avx512-bf16",)}`."""
    data: Data | None = None
    extends: str | None = None
    schema: int = SCHEMA


TABLES: dict[str, type[msgspec.Struct]] = {
    "match": Match,
    "match.accelerator": AcceleratorNeed,
    "graph": Graph,
    "precision": Precision,
    "quantization": Quantization,
    "backends": BackendOrder,
    "search": Search,
    "data": Data,
}


AUTO = "auto"
"""Value of `extends` for the target that fits the device."""

ARCHITECTURES = ("x86_64", "i686", "aarch64", "armv7l", "riscv64", "ppc64le", "s390x")
SYSTEMS = ("Linux", "Darwin", "Windows")
"""Operating systems as `HostFacts.os` spells them; Darwin is macOS."""
ACCELERATORS = ("gpu", "npu")

LAYOUTS = ("source",)

SCHEMES = {
    "int8": "qdq:INT8",
    "int8-groups": "int8_groups:SCHEME",
    "int8-dynamic": "int8_dynamic:SCHEME",
    "a16w8": "qdq:A16W8",
    "w8": "weights_only:W8",
    "w4": "weights_only:W4",
    "fp16": "halves:FP16",
    "bf16": "halves:BF16",
}
"""Schemes of quantization: the module below `edgeopt/quant/schemes`, and the name of the record in it."""

RECIPES = {
    "source": "exact:SOURCE",
    "cleaned": "exact:CLEANED",
    "lowered": "exact:LOWERED",
    "mapped": "exact:MAPPED_WEIGHTS",
    "nncf-int8": "libraries:NNCF_INT8",
    "nncf-transformer": "libraries:NNCF_TRANSFORMER",
    "ort-dynamic": "libraries:ORT_DYNAMIC",
    "nncf-weights": "libraries:NNCF_WEIGHTS",
    "nncf-weights4": "libraries:NNCF_WEIGHTS4",
    "ort-weights8": "libraries:ORT_WEIGHTS8",
    "ort-weights4": "libraries:ORT_WEIGHTS4",
    "ort-int8": "libraries:ORT_INT8",
    "nncf-repaired": "libraries:NNCF_REPAIRED",
    "planned": "precision:PLAN",
}
"""Other ways to build a variant: the module below `edgeopt/pipeline/plans`, and the name of the record in it."""

VARIANTS = (*RECIPES, *SCHEMES)
"""Names that a precision ladder may contain."""

INTEGER_TYPES = ("uint8", "int8")
CALIBRATIONS = ("minmax", "moving-average", "percentile", "entropy", "mse", "distribution")

# This version runs nothing on them.
PLANNED_BACKENDS = ("onnxruntime-webgpu",)

PICTURE_FILTERS = ("bilinear", "bicubic")
PICTURE_PLACES = ("middle", "top-left")
PICTURE_LAYOUTS = ("nchw", "nhwc")
COLOUR_ORDERS = ("rgb", "bgr", "gray")
PICTURE_TYPES = ("float32", "float16", "float64", "uint8", "int8", "int32")


class RuntimeNeed(NamedTuple):
    name: str
    """Name of the runtime in a sentence."""
    hint: str
    """Instructions to install the runtime."""


RUNTIME_NEEDS = {
    "onnxruntime": RuntimeNeed("ONNX Runtime", pip_install("cpu")),
    "openvino": RuntimeNeed("OpenVINO", pip_install("openvino")),
    "tensorrt": RuntimeNeed("TensorRT", "it comes from NVIDIA, with JetPack on a Jetson"),
    "CPUExecutionProvider": RuntimeNeed("ONNX Runtime's CPUExecutionProvider", pip_install("cpu")),
    "CUDAExecutionProvider": RuntimeNeed("ONNX Runtime's CUDAExecutionProvider", pip_install("cuda")),
    "TensorrtExecutionProvider": RuntimeNeed("ONNX Runtime's TensorrtExecutionProvider", pip_install("cuda")),
    "CoreMLExecutionProvider": RuntimeNeed(
        "ONNX Runtime's CoreMLExecutionProvider", f"on macOS, {pip_install('cpu')}"
    ),
    "DmlExecutionProvider": RuntimeNeed(
        "ONNX Runtime's DmlExecutionProvider", f"on Windows, {pip_install('directml')}"
    ),
    "QNNExecutionProvider": RuntimeNeed("ONNX Runtime's QNNExecutionProvider", "pip install onnxruntime-qnn"),
    "WebGpuExecutionProvider": RuntimeNeed(
        "ONNX Runtime's WebGpuExecutionProvider", "build ONNX Runtime with --use_webgpu"
    ),
    "openvino:GPU": RuntimeNeed(
        "OpenVINO's GPU device", "install OpenVINO and Intel's compute runtime (OpenCL driver)"
    ),
    "openvino:NPU": RuntimeNeed("OpenVINO's NPU device", "install OpenVINO and Intel's NPU driver"),
}
