"""edgeopt: the fastest proved deployment of an ONNX model on a device.

device = edgeopt.probe()
analysis = edgeopt.analyze("model.onnx")
outcome = edgeopt.optimize("model.onnx", "model.edgeopt", data="data.npz")
report = edgeopt.bench("model.edgeopt", against="model.onnx")
quantized = edgeopt.quantize("model.onnx", "model_int8.onnx", data="data.npz")
session = edgeopt.load("model.edgeopt")
outputs = session.run({"image": array})
"""

import importlib
from typing import TYPE_CHECKING

from edgeopt.privacy import keep_runtimes_quiet
from edgeopt.version import __version__

if TYPE_CHECKING:
    from edgeopt.bundle.runtime.batching import Batching
    from edgeopt.bundle.runtime.isolated.session import Isolation
    from edgeopt.bundle.runtime.models import Models
    from edgeopt.bundle.runtime.pool.pool import Pool
    from edgeopt.bundle.runtime.session import load
    from edgeopt.commands.analyze.analyze import analyze
    from edgeopt.commands.bench.api import bench
    from edgeopt.commands.optimize import optimize
    from edgeopt.commands.quantize import quantize
    from edgeopt.commands.simplify.simplify import OperatorOptimizer, optimize_operators
    from edgeopt.graph.analysis.categories import OperatorType
    from edgeopt.hw.probe import probe

__all__ = [
    "Batching",
    "Isolation",
    "Models",
    "OperatorOptimizer",
    "OperatorType",
    "Pool",
    "__version__",
    "analyze",
    "bench",
    "load",
    "optimize",
    "optimize_operators",
    "probe",
    "quantize",
]

keep_runtimes_quiet()

# `import edgeopt` must stay under 60 ms, so each name brings its own imports when it is first used.
_HOMES = {
    "probe": "edgeopt.hw.probe",
    "analyze": "edgeopt.commands.analyze.analyze",
    "optimize": "edgeopt.commands.optimize",
    "bench": "edgeopt.commands.bench.api",
    "quantize": "edgeopt.commands.quantize",
    "load": "edgeopt.bundle.runtime.session",
    "Batching": "edgeopt.bundle.runtime.batching",
    "Isolation": "edgeopt.bundle.runtime.isolated.session",
    "Models": "edgeopt.bundle.runtime.models",
    "Pool": "edgeopt.bundle.runtime.pool.pool",
    "OperatorType": "edgeopt.graph.analysis.categories",
    "OperatorOptimizer": "edgeopt.commands.simplify.simplify",
    "optimize_operators": "edgeopt.commands.simplify.simplify",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'edgeopt' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
