"""What runs models; a new backend is one file, one line here, one test file."""

from functools import cache

from edgeopt.backends.base import Backend
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
from edgeopt.backends.options import Kind, kinds
from edgeopt.backends.plugin import plugin_backends
from edgeopt.errors import UsageError
from edgeopt.nearest import nearest

# Where a backend is looked for that can run a model, the first one that is there is taken.
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

# Those that a profile may name, and a search try: the others compute nothing.
NAMES = tuple(backend.name for backend in BACKENDS if backend.package is not None)


@cache
def option_kinds(name: str) -> dict[str, Kind]:
    """What a profile may set on a backend, and to what; nothing where there is no such backend."""
    return next((kinds(backend.options) for backend in BACKENDS if backend.name == name), {})


def lowering_names(name: str) -> tuple[str, ...]:
    """The rewrites into what only the runtime behind a backend knows, or runs faster."""
    from edgeopt.backends.onnxruntime import lowering as onnxruntime
    from edgeopt.backends.openvino import lowering as openvino

    if name not in NAMES:
        return ()
    return openvino.NAMES if name.startswith("openvino-") else onnxruntime.NAMES


def known_backends() -> tuple[Backend, ...]:
    """edgeopt's own, then those of plug-ins, whose code is imported only when one loads a model."""
    return (*BACKENDS, *plugin_backends())


def backend_named(name: str) -> Backend:
    """Plug-ins are looked for only where it is none of edgeopt's own."""
    for own in BACKENDS:
        if own.name == name:
            return own
    known = known_backends()
    for backend in known:
        if backend.name == name:
            return backend
    names = [backend.name for backend in known]
    raise UsageError(f"There is no backend '{name}'.", nearest(name, names))
