"""`options.hpp`: the session options of a bundle as C++ source."""

from collections.abc import Mapping

from edgeopt.commands.export.settings import OpenVinoSettings, OrtSettings

_HEAD = """\
// What `edgeopt optimize` chose for this model; written by `edgeopt export --to cpp`.
#pragma once

"""


def onnxruntime_header(model: str, floor_db: float, settings: OrtSettings) -> str:
    """With functions of the C interface where the C++ one got them late."""
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
    """As a value of an ov::AnyMap: numbers and truth values as they are, tables within, all else as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "ov::AnyMap{" + ", ".join(f"{{{_text(str(k))}, {_any(v)}}}" for k, v in value.items()) + "}"
    return f"std::string({_text(str(value))})"


def _text(text: str) -> str:
    """A string literal; all but plain ASCII in octal, which ends by itself after three digits."""
    out = []
    for byte in text.encode():
        if byte in b'"\\?':
            out.append("\\" + chr(byte))
        else:
            out.append(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'
