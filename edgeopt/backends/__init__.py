"""What runs models; a new backend is one file, one line here, one test file."""

from edgeopt.backends.base import Backend
from edgeopt.backends.null import BACKEND as NULL
from edgeopt.backends.onnxruntime.coreml import BACKEND as ONNXRUNTIME_COREML
from edgeopt.backends.onnxruntime.cpu import BACKEND as ONNXRUNTIME_CPU
from edgeopt.backends.onnxruntime.cuda import BACKEND as ONNXRUNTIME_CUDA
from edgeopt.backends.onnxruntime.directml import BACKEND as ONNXRUNTIME_DIRECTML
from edgeopt.backends.onnxruntime.openvino import BACKEND as ONNXRUNTIME_OPENVINO
from edgeopt.backends.onnxruntime.qnn import BACKEND as ONNXRUNTIME_QNN
from edgeopt.backends.onnxruntime.tensorrt import BACKEND as ONNXRUNTIME_TENSORRT
from edgeopt.backends.onnxruntime.xnnpack import BACKEND as ONNXRUNTIME_XNNPACK
from edgeopt.backends.openvino.auto import BACKEND as OPENVINO_AUTO
from edgeopt.backends.openvino.cpu import BACKEND as OPENVINO_CPU
from edgeopt.backends.openvino.gpu import BACKEND as OPENVINO_GPU
from edgeopt.backends.openvino.npu import BACKEND as OPENVINO_NPU
from edgeopt.errors import UsageError

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


def backend_named(name: str) -> Backend:
    for backend in BACKENDS:
        if backend.name == name:
            return backend
    names = [backend.name for backend in BACKENDS]
    # What was not written to the end comes before what looks alike.
    begun = [known for known in names if known.startswith(name)]
    from difflib import get_close_matches

    near = begun or get_close_matches(name, names, 1, 0.5)
    hint = f"Did you mean '{near[0]}'?" if near else f"The backends are: {', '.join(names)}."
    raise UsageError(f"There is no backend '{name}'.", hint)
