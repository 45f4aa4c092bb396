"""`cpp`: C++ source with the session options of the bundle; the program checks the golden samples itself."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgeopt.bundle.golden import golden_floor_db
from edgeopt.commands.export.base import (
    GOLDEN,
    ExportedFiles,
    ExportJob,
    Format,
    copy_model,
    literal,
    ports,
    refuse,
)
from edgeopt.commands.export.settings import (
    ONNXRUNTIME,
    OpenVinoSettings,
    OrtSettings,
    openvino_settings,
    ort_options,
    ort_settings,
    runtime_of,
)

_HEAD = """\
// What `edgeopt optimize` chose for this model; written by `edgeopt export --to cpp`.
#pragma once

"""


def onnxruntime_header(model: str, floor_db: float, settings: OrtSettings) -> str:
    """Renders the header for ONNX Runtime, with the C interface for functions that the C++ one got late."""
    lines = [
        f"options.SetIntraOpNumThreads({settings.intra_op_num_threads});",
        f"options.SetInterOpNumThreads({settings.inter_op_num_threads});",
        f"options.SetGraphOptimizationLevel(GraphOptimizationLevel::{settings.graph_optimization_level});",
        f"options.SetExecutionMode(ExecutionMode::{settings.execution_mode});",
        f"options.{'Enable' if settings.enable_cpu_mem_arena else 'Disable'}CpuMemArena();",
        f"options.{'Enable' if settings.enable_mem_pattern else 'Disable'}MemPattern();",
        *(f"options.AddConfigEntry({_text(k)}, {_text(v)});" for k, v in settings.config_entries.items()),
        *(
            f"Ort::ThrowOnError(Ort::GetApi().AddFreeDimensionOverrideByName(options, {_text(name)}, {size}));"
            for name, size in settings.free_dimensions.items()
        ),
    ]
    if settings.use_deterministic_compute:
        lines.append("Ort::ThrowOnError(Ort::GetApi().SetDeterministicCompute(options, true));")
    for name, chosen in settings.providers:
        lines += _provider(name, chosen)
    run = [f"options.AddConfigEntry({_text(k)}, {_text(v)});" for k, v in settings.run_config_entries.items()]
    return (
        _HEAD
        + "#include <onnxruntime_cxx_api.h>\n\nnamespace options {\n\n"
        + _constants(model, floor_db)
        + _function("Ort::SessionOptions session()", "Ort::SessionOptions options;", lines)
        + _function("Ort::RunOptions run()", "Ort::RunOptions options;", run)
        + "}  // namespace options\n"
    )


def openvino_header(
    model: str, floor_db: float, settings: OpenVinoSettings, inputs: list[str], outputs: list[str]
) -> str:
    config = [f"config[{_text(key)}] = {_any(value)};" for key, value in settings.config.items()]
    read = [f"config[{_text(key)}] = {_any(value)};" for key, value in settings.read_config.items()]
    shapes = ", ".join(f"{{{_text(k)}, {{{', '.join(map(str, v))}}}}}" for k, v in settings.shapes.items())
    names = "".join(
        f"inline const std::vector<std::string> {constant} = {{{', '.join(map(_text, listed))}}};\n"
        for constant, listed in (("kInputs", inputs), ("kOutputs", outputs))
    )
    return (
        _HEAD
        + "#include <openvino/openvino.hpp>\n\n#include <cstdint>\n#include <map>\n#include <string>\n"
        + "#include <vector>\n\nnamespace options {\n\n"
        + _constants(model, floor_db)
        + f"inline constexpr const char* kDevice = {_text(settings.device)};\n"
        + "// In the order of the model.\n"
        + names
        + "\n"
        + _function("ov::AnyMap config()", "ov::AnyMap config;", config, "config")
        + _function("ov::AnyMap read()", "ov::AnyMap config;", read, "config")
        + "// Inputs fixed to a shape before compiling, for speed.\n"
        + "inline const std::map<std::string, std::vector<int64_t>>& shapes() {\n"
        + f"  static const std::map<std::string, std::vector<int64_t>> all = {{{shapes}}};\n  return all;\n}}\n\n"
        + "}  // namespace options\n"
    )


def _constants(model: str, floor_db: float) -> str:
    return (
        f"inline constexpr const char* kModel = {_text(model)};\n"
        f"inline constexpr double kFloorDb = {floor_db!r};\n"
    )


def _function(head: str, first: str, lines: list[str], result: str = "options") -> str:
    body = "".join(f"  {line}\n" for line in [first, *lines, f"return {result};"])
    return f"inline {head} {{\n{body}}}\n\n"


def _provider(name: str, chosen: Mapping[str, str]) -> list[str]:
    if name == "CPUExecutionProvider":
        return []  # always there, and last
    pairs = ", ".join(f"{{{_text(key)}, {_text(value)}}}" for key, value in chosen.items())
    if name == "CUDAExecutionProvider":
        return [
            "OrtCUDAProviderOptionsV2* cuda = nullptr;",
            "Ort::ThrowOnError(Ort::GetApi().CreateCUDAProviderOptions(&cuda));",
            f"const std::vector<std::pair<const char*, const char*>> wanted = {{{pairs}}};",
            "for (const auto& [key, value] : wanted)",
            "  Ort::ThrowOnError(Ort::GetApi().UpdateCUDAProviderOptions(cuda, &key, &value, 1));",
            "options.AppendExecutionProvider_CUDA_V2(*cuda);",
            "Ort::GetApi().ReleaseCUDAProviderOptions(cuda);",
        ]
    return [
        f"options.AppendExecutionProvider({_text(name.removesuffix('ExecutionProvider').upper())}, {{{pairs}}});"
    ]


def _any(value: object) -> str:
    """Formats a value of an ov::AnyMap: numbers and booleans unchanged, tables nested, all else as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "ov::AnyMap{" + ", ".join(f"{{{_text(str(k))}, {_any(v)}}}" for k, v in value.items()) + "}"
    return f"std::string({_text(str(value))})"


def _text(text: str) -> str:
    return literal(text, b'"\\?')


NAME = "cpp"
FILES = Path(__file__).with_name("files") / "cpp"


def write(job: ExportJob, folder: Path) -> ExportedFiles:
    runtime = runtime_of(job, NAME)
    inputs, outputs = ports(job, job.bundle.model, job.backend)
    odd = next((port for port in (*inputs, *outputs) if port.dtype in {"str", "bfloat16"}), None)
    if odd is not None:
        raise refuse(job, NAME, f"'{odd.name}' is a tensor of {odd.dtype}", "Use --to runner or --to onnx.")
    made = ExportedFiles(
        not_checked="The source was not compiled here; `run` compares the golden samples on the device.",
        use=[
            "cmake -S . -B build" + (" -DONNXRUNTIME_ROOT=/path/to/onnxruntime" if runtime == ONNXRUNTIME else ""),
            "cmake --build build",
            "build/run .",
        ],
    )
    model = copy_model(job, folder / "model")
    _write_golden(job, folder / GOLDEN)
    for source in (*FILES.glob("*.*"), *(FILES / runtime).glob("*.*")):
        if source.is_file():
            shutil.copyfile(source, folder / source.name)
    name, floor_db = model.relative_to(folder).as_posix(), golden_floor_db(job.bundle)
    if runtime == ONNXRUNTIME:
        if job.backend in {"onnxruntime-directml", "onnxruntime-openvino"}:
            reason = f"starting {job.backend} needs a library that this source does not support"
            raise refuse(job, NAME, reason, "Use --to runner.")
        header = onnxruntime_header(name, floor_db, ort_settings(job, model))
        if ort_options(job).io_binding:
            made.notes.append(
                "The option io_binding is left out: each run copies its arrays to the device and back."
            )
    else:
        names = [port.name for port in inputs], [port.name for port in outputs]
        header = openvino_header(name, floor_db, openvino_settings(job), *names)
    (folder / "options.hpp").write_text(header, encoding="utf-8")
    version = job.bundle.deployment.runtimes.get(runtime)
    if version:
        made.notes.append(
            f"The bundle was made with {runtime} {version}; link that version, or run the golden samples."
        )
    return made


def _write_golden(job: ExportJob, folder: Path) -> None:
    """Writes a file of bytes for each tensor, and a list of them: C++ reads no .npz."""
    folder.mkdir(parents=True)
    lines = []
    for kind, runs in (("input", job.bundle.golden("inputs")), ("reference", job.bundle.golden("reference"))):
        for number, run in enumerate(runs):
            for position, (name, array) in enumerate(run.items()):
                file = f"{number}-{kind}-{position}.bin"
                (folder / file).write_bytes(
                    np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
                )
                shape = "".join(f" {dim}" for dim in array.shape)
                lines.append(f"{number} {kind} {array.dtype.name} {file} {array.ndim}{shape} {name}\n")
    (folder / "samples.txt").write_text("".join(lines), encoding="utf-8")


FORMAT = Format(NAME, "C++ source with the session options, and CMake; checks the golden samples itself", write)
