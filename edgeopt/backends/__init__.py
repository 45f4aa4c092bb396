"""What runs models; a new backend is one file, one line here, one test file."""

from difflib import get_close_matches

from edgeopt.backends.base import Backend
from edgeopt.backends.null import BACKEND as NULL
from edgeopt.backends.onnxruntime.cpu import BACKEND as ONNXRUNTIME_CPU
from edgeopt.backends.openvino.cpu import BACKEND as OPENVINO_CPU
from edgeopt.errors import UsageError

BACKENDS: tuple[Backend, ...] = (NULL, ONNXRUNTIME_CPU, OPENVINO_CPU)


def backend_named(name: str) -> Backend:
    for backend in BACKENDS:
        if backend.name == name:
            return backend
    names = [backend.name for backend in BACKENDS]
    near = get_close_matches(name, names, 1, 0.5)
    hint = f"Did you mean '{near[0]}'?" if near else f"The backends are: {', '.join(names)}."
    raise UsageError(f"There is no backend '{name}'.", hint)
