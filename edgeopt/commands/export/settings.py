"""Options of a bundle, as settings of the runtime that the bundle is for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.backends.buckets import OPTIONS as BUCKETS
from edgeopt.backends.onnxruntime.cpu import PROVIDER as CPU
from edgeopt.backends.onnxruntime.nvidia import CUDA_PROVIDER as CUDA
from edgeopt.backends.onnxruntime.options import OrtOptions, config_entries, dimensions, run_entries
from edgeopt.backends.onnxruntime.provider import Provider
from edgeopt.backends.onnxruntime.providers import DIRECTML_PROVIDER as DIRECTML
from edgeopt.backends.onnxruntime.providers import OPENVINO_PROVIDER as OPENVINO
from edgeopt.backends.onnxruntime.providers import XNNPACK_PROVIDER as XNNPACK
from edgeopt.backends.openvino.devices import AutoOptions, GpuOptions, NpuOptions, auto_aim, gpu_aim, npu_aim
from edgeopt.backends.openvino.options import Aim, OpenVinoOptions, SharedOptions, cpu_aim
from edgeopt.backends.options import read_options
from edgeopt.commands.export.base import ExportJob, refuse

ONNXRUNTIME = "onnxruntime"
OPENVINO_RUNTIME = "openvino"

# Not TensorRT, CoreML and QNN: where they keep what they compiled, and their plug-ins, is edgeopt's own affair.
PROVIDERS: tuple[Provider, ...] = (CPU, CUDA, DIRECTML, OPENVINO, XNNPACK)
# The functions take the options beside them, which no type can say of a row.
DEVICES: Mapping[str, tuple[type[SharedOptions], Callable[[Any], Aim]]] = {
    "openvino-cpu": (OpenVinoOptions, cpu_aim),
    "openvino-gpu": (GpuOptions, gpu_aim),
    "openvino-npu": (NpuOptions, npu_aim),
    "openvino-auto": (AutoOptions, auto_aim),
}
_LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}


class OrtSettings(msgspec.Struct, frozen=True):
    """A session of ONNX Runtime, as its own interfaces name things."""

    intra_op_num_threads: int
    inter_op_num_threads: int
    graph_optimization_level: str
    execution_mode: str
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    use_deterministic_compute: bool
    config_entries: dict[str, str]
    run_config_entries: dict[str, str]
    free_dimensions: dict[str, int]
    providers: list[tuple[str, dict[str, str]]]


class OpenVinoSettings(msgspec.Struct, frozen=True):
    """A compiled model of OpenVINO, as its own interfaces name things."""

    device: str
    config: dict[str, Any]
    read_config: dict[str, bool]
    shapes: dict[str, list[int]]
    """Inputs fixed to a shape before compiling, for speed."""


def runtime_of(job: ExportJob, format_name: str) -> str:
    """Returns which of the two runtimes a bundle is for; refuses other bundles."""
    if job.backend in DEVICES:
        return OPENVINO_RUNTIME
    if any(provider.name == job.backend for provider in PROVIDERS):
        return ONNXRUNTIME
    known = ", ".join([provider.name for provider in PROVIDERS] + list(DEVICES))
    raise refuse(
        job,
        format_name,
        f"it runs with the backend {job.backend}",
        f"Bundles of these backends can: {known}. `edgeopt export --to onnx` gives the model alone.",
    )


def provider_of(job: ExportJob) -> Provider:
    return next(provider for provider in PROVIDERS if provider.name == job.backend)


def ort_options(job: ExportJob) -> OrtOptions:
    provider = provider_of(job)
    return read_options(provider.options, job.bundle.deployment.run.options, provider.name)


def ort_settings(job: ExportJob, model: Path) -> OrtSettings:
    provider, options = provider_of(job), ort_options(job)
    entries = config_entries(options, job.backend)
    # A list of cores says how many threads, where nothing else does.
    cores = entries.get("session.intra_op_thread_affinities", "").count(";") + 2 if options.cores else 0
    listed = [(provider.key, provider.settings(options, model)), *((key, {}) for key in provider.fallbacks)]
    return OrtSettings(
        intra_op_num_threads=options.threads or cores,
        inter_op_num_threads=options.inter_threads,
        graph_optimization_level=_LEVELS[options.graph_level],
        execution_mode="ORT_PARALLEL" if options.execution_mode == "parallel" else "ORT_SEQUENTIAL",
        enable_cpu_mem_arena=options.arena,
        enable_mem_pattern=options.memory_pattern,
        use_deterministic_compute=options.deterministic,
        config_entries=entries,
        run_config_entries=run_entries(options, provider.gpu(options)),
        free_dimensions=dimensions(options.free_dimensions, job.backend),
        providers=[*listed, *([(CPU.key, {})] if provider.key != CPU.key else [])],
    )


def openvino_settings(job: ExportJob) -> OpenVinoSettings:
    kind, aim_of = DEVICES[job.backend]
    options = read_options(kind, job.bundle.deployment.run.options, job.backend)
    aim = aim_of(options)
    return OpenVinoSettings(
        device=aim.device,
        config=aim.config,
        read_config={} if options.mmap else {"ENABLE_MMAP": False},
        shapes={name: list(shape) for name, shape in options.shapes.items()},
    )


def openvino_lines(settings: OpenVinoSettings, file: str) -> list[str]:
    """Returns Python code that compiles a file as the bundle runs it."""
    reshape = [f"model.reshape({settings.shapes})  # or leave its shapes open: slower"] if settings.shapes else []
    return [
        *("import openvino", "core = openvino.Core()", f"model = core.read_model({file!r})", *reshape),
        f"compiled = core.compile_model(model, {settings.device!r}, {settings.config})",
    ]


def options_text(job: ExportJob) -> str:
    """Formats the options for people: `threads=1, precision=bf16`; or says that there are none."""
    options = job.bundle.deployment.run.options
    # Of buckets their sizes say enough.
    listed = [f"{n}={option_text(v, n)}" for n, v in options.items() if n == "buckets" or n not in BUCKETS]
    return ", ".join(listed) if listed else "no options: the runtime's own choices"


def option_text(value: object, name: str = "") -> str:
    """Formats one value for people; `name` is that of the option."""
    if isinstance(value, dict):
        mark = "," if name in BUCKETS else "x"
        return ", ".join(f"{key}:{mark.join(map(str, sizes))}" for key, sizes in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
