"""Backends, each one runtime with one execution provider or device, and `BACKENDS`, the table of them."""

from functools import cache

from edgeopt.backends.base import ON_INPUTS, Backend, EightBits
from edgeopt.backends.null import BACKEND as NULL
from edgeopt.backends.onnxruntime.cpu import BACKEND as ONNXRUNTIME_CPU
from edgeopt.backends.onnxruntime.nvidia import CUDA_BACKEND as ONNXRUNTIME_CUDA
from edgeopt.backends.onnxruntime.nvidia import TENSORRT_BACKEND as ONNXRUNTIME_TENSORRT
from edgeopt.backends.onnxruntime.providers import COREML_BACKEND as ONNXRUNTIME_COREML
from edgeopt.backends.onnxruntime.providers import DIRECTML_BACKEND as ONNXRUNTIME_DIRECTML
from edgeopt.backends.onnxruntime.providers import OPENVINO_BACKEND as ONNXRUNTIME_OPENVINO
from edgeopt.backends.onnxruntime.providers import QNN_BACKEND as ONNXRUNTIME_QNN
from edgeopt.backends.onnxruntime.providers import XNNPACK_BACKEND as ONNXRUNTIME_XNNPACK
from edgeopt.backends.openvino.devices import AUTO_BACKEND as OPENVINO_AUTO
from edgeopt.backends.openvino.devices import CPU_BACKEND as OPENVINO_CPU
from edgeopt.backends.openvino.devices import GPU_BACKEND as OPENVINO_GPU
from edgeopt.backends.openvino.devices import NPU_BACKEND as OPENVINO_NPU
from edgeopt.backends.options import Kind, Value, kinds, lean_values
from edgeopt.backends.plugin import plugin_backends
from edgeopt.errors import UsageError
from edgeopt.nearest import nearest

# The order in which a backend is chosen for a model: the first available one that can run it.
BACKENDS: tuple[Backend, ...] = (
    NULL,
    ONNXRUNTIME_CPU,
    OPENVINO_CPU,
    ONNXRUNTIME_CUDA,
    ONNXRUNTIME_TENSORRT,
    ONNXRUNTIME_DIRECTML,
    ONNXRUNTIME_COREML,
    ONNXRUNTIME_OPENVINO,
    ONNXRUNTIME_QNN,
    ONNXRUNTIME_XNNPACK,
    OPENVINO_GPU,
    OPENVINO_NPU,
    OPENVINO_AUTO,
)

# Backends that a profile may name and a search may try: the others compute nothing.
NAMES = tuple(backend.name for backend in BACKENDS if backend.package is not None)


# Backends that run on every processor: one of them runs the baseline, and one judges accuracy.
PROCESSOR = (ONNXRUNTIME_CPU.name, OPENVINO_CPU.name)


@cache
def option_kinds(name: str) -> dict[str, Kind]:
    """Returns the values of the options that a profile may set on a backend, by name; empty if it is unknown."""
    return next((kinds(backend.options) for backend in BACKENDS if backend.name == name), {})


def lean_options(name: str) -> dict[str, Value]:
    """Returns the options of a backend that may save memory, each with its value for that."""
    return next((lean_values(backend.options) for backend in BACKENDS if backend.name == name), {})


def runtime_of(name: str) -> str:
    """Returns the Python package of the runtime behind one of edgeopt's own backends; empty for other names."""
    return next((backend.package or "" for backend in BACKENDS if backend.name == name), "")


def lowering_names(name: str) -> tuple[str, ...]:
    """Returns the names of the rewrites that only the runtime behind a backend supports, or runs faster."""
    from edgeopt.backends.onnxruntime import lowering as onnxruntime
    from edgeopt.backends.openvino import lowering as openvino

    return {"onnxruntime": onnxruntime.NAMES, "openvino": openvino.NAMES}.get(runtime_of(name), ())


def eight_bits_of(name: str) -> EightBits:
    """Returns the rules of a backend for quantized models, or the default rules for an unknown name."""
    return next((backend.eight_bits for backend in BACKENDS if backend.name == name), ON_INPUTS)


def known_backends() -> tuple[Backend, ...]:
    """Returns edgeopt's own backends, then those of plug-ins; their code is imported when one loads a model."""
    return (*BACKENDS, *plugin_backends())


def backend_named(name: str) -> Backend:
    """Returns the backend of this name, from a plug-in only if edgeopt has none; UsageError if there is none."""
    for own in BACKENDS:
        if own.name == name:
            return own
    known = known_backends()
    for backend in known:
        if backend.name == name:
            return backend
    names = [backend.name for backend in known]
    raise UsageError(f"There is no backend '{name}'.", nearest(name, names))
