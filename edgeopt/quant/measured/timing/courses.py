"""On what a plan may stand: a backend with options that change its numbers, and the forms that gain there."""

from collections.abc import Mapping, Sequence

import msgspec

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Available, TensorInfo
from edgeopt.backends.options import Value, read_options, side_of
from edgeopt.data.samples import Samples
from edgeopt.errors import MissingError, UsageError, pip_install
from edgeopt.hw.device import Device
from edgeopt.profiles import TargetProfile

OPENVINO = "openvino-cpu"
GROUPS = "dynamic_quantization_group_size"
GROUP_SIZES = (128, 64, 32)
"""The quickest first; each is more exact than the one before."""
# OpenVINO computes floats in bf16 by itself where the processor has it: that is a choice, and must be said.
_PRECISION = "precision"
_BF16 = frozenset({"avx512-bf16", "amx-bf16"})


OptionValue = Value | dict[str, list[int]]


class Course(msgspec.Struct, frozen=True):
    """One way to run whatever is planned."""

    backend: str
    options: dict[str, OptionValue] = {}

    @property
    def name(self) -> str:
        told = [f"{name}={value}" for name, value in self.options.items() if not isinstance(value, dict)]
        return f"{self.backend} ({', '.join(told)})" if told else self.backend

    @property
    def side(self) -> str:
        """The same as `edgeopt bench` reads it behind the @ of a side."""
        return side_of(self.backend, self.options)

    def having(self, **options: OptionValue) -> "Course":
        return Course(self.backend, {**self.options, **options})


def backends_for(wanted: str, profile: TargetProfile) -> tuple[str, ...]:
    """The one that the user named, or the available ones of the profile; raises MissingError if there is none."""
    if wanted:
        if wanted not in {backend.name for backend in BACKENDS}:
            from edgeopt.nearest import nearest

            raise UsageError(
                f"There is no backend '{wanted}'.", nearest(wanted, tuple(backend.name for backend in BACKENDS))
            )
        backend = backend_named(wanted)
        state = backend.available()
        if not isinstance(state, Available):
            raise MissingError(
                f"The backend {wanted} is not available: {state.reason}.", "List available ones: edgeopt backends"
            )
        if ".onnx" not in backend.formats:
            raise UsageError(f"The backend {wanted} runs no ONNX files.", "Choose another one: edgeopt backends")
        return (wanted,)
    here = [name for name in profile.backends.order if isinstance(backend_named(name).available(), Available)]
    found = tuple(dict.fromkeys(name for name in here if ".onnx" in backend_named(name).formats))
    if not found:
        raise MissingError("No installed runtime runs quantized models.", pip_install("cpu"))
    return found


def courses_for(backends: Sequence[str], options: Mapping[str, Value], device: Device) -> tuple[Course, ...]:
    """Each backend with the options that were given, and with every value of those that change its numbers."""
    found: list[Course] = []
    for name in backends:
        known = backend_named(name).options
        mine: dict[str, OptionValue] = {
            key: value for key, value in options.items() if key in known.__struct_fields__
        }
        if len(backends) == 1:
            mine = dict(options)
            read_options(known, mine, name)  # complains of what it does not have
        if name != OPENVINO or _PRECISION in mine:
            found.append(Course(name, mine))
            continue
        found.append(Course(name, {_PRECISION: "f32", **mine}))
        if _BF16 & set(device.cpu.simd):
            found.append(Course(name, {_PRECISION: "bf16", **mine}))
    return tuple(found)


def is_inexact(course: Course) -> bool:
    """Whether it rounds the float model too."""
    # What a runtime chooses by itself may be any of them.
    return course.options.get(_PRECISION, "f32") != "f32"


def exact(course: Course) -> Course:
    """The same with floats in full precision: what a plan is measured against."""
    kept = {name: value for name, value in course.options.items() if name != GROUPS}
    return Course(course.backend, {**kept, _PRECISION: "f32"} if is_inexact(course) else kept)


def with_shapes(course: Course, inputs: Sequence[TensorInfo], samples: Samples) -> Course:
    """Fixed to the shapes of the data, where the model leaves them open and the runtime is quicker for knowing.

    Feeds of other shapes still run.
    """
    is_open = any(not isinstance(size, int) for info in inputs for size in info.shape)
    known = "shapes" in backend_named(course.backend).options.__struct_fields__
    if not is_open or not known or "shapes" in course.options or not course.backend.startswith("openvino"):
        return course
    return course.having(shapes=samples.shapes())
