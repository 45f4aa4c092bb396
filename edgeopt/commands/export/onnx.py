"""`onnx`: the model alone, with its external data; what made it fast is said beside it."""

import re
from keyword import iskeyword
from pathlib import Path

import msgspec

from edgeopt.backends.protobuf import GRAPH, opened, parts, text
from edgeopt.commands.export.base import ExportedFiles, ExportJob, Format, check_model, copy_model, refuse
from edgeopt.commands.export.settings import (
    DEVICES,
    PROVIDERS,
    openvino_lines,
    openvino_settings,
    option_text,
    options_text,
    ort_settings,
)
from edgeopt.platform.command_line import quote_word

NAME = "onnx"
_NODE, _DOMAIN = 1, 7  # in GraphProto, in NodeProto


def write(job: ExportJob, folder: Path) -> ExportedFiles:
    if job.bundle.model.suffix != ".onnx":
        raise refuse(
            job,
            NAME,
            f"its model is '{job.bundle.model.name}', which is not ONNX",
            "Use --to openvino-ir, or export the original bundle.",
        )
    model = copy_model(job, folder, f"{job.file_name}.onnx")
    made = ExportedFiles(use=_code(job, model, f"{job.file_name}.onnx"))
    made.notes.append(
        f"A model file holds no options. The bundle runs with {job.backend} and "
        f"{options_text(job)}; others may be slower or less accurate. Measure it with: "
        f"{_bench(job, model.name)}"
    )
    own = sorted(domains(model) - {"", "ai.onnx", "ai.onnx.ml"})
    if own:
        made.notes.append(f"It holds operators of {', '.join(own)}, which other runtimes may not support.")
    check_model(job, made, model, job.backend, job.bundle.deployment.run.options)
    return made


def domains(model: Path) -> set[str]:
    """Returns the domains of the operators in the main graph of a model."""
    with opened(model) as data:
        return {
            text(data, domain)
            for graph in parts(data, (0, len(data)), (GRAPH,))
            for node in parts(data, graph, (_NODE,))
            for domain in parts(data, node, (_DOMAIN,))
        }


def _code(job: ExportJob, model: Path, name: str) -> list[str]:
    """Returns code that runs the model as the bundle does, or for other runtimes the way edgeopt runs it."""
    feeds = ", ".join(f"{each.name!r}: {_variable(each.name)}" for each in job.bundle.deployment.inputs)
    if job.backend in DEVICES:
        return [*openvino_lines(openvino_settings(job), name), f"outputs = compiled({{{feeds}}})"]
    if all(provider.name != job.backend for provider in PROVIDERS):
        return [_bench(job, name)]
    ort = ort_settings(job, model)
    plain = {"intra_op_num_threads": 0, "inter_op_num_threads": 0, "enable_cpu_mem_arena": True}
    plain |= {"enable_mem_pattern": True, "use_deterministic_compute": False}
    changed = {key: value for key in plain if (value := getattr(ort, key)) != plain[key]}
    lines = [f"options.{key} = {value}" for key, value in changed.items()]
    if ort.graph_optimization_level != "ORT_ENABLE_ALL":
        level = f"onnxruntime.GraphOptimizationLevel.{ort.graph_optimization_level}"
        lines.append(f"options.graph_optimization_level = {level}")
    if ort.execution_mode != "ORT_SEQUENTIAL":
        lines.append(f"options.execution_mode = onnxruntime.ExecutionMode.{ort.execution_mode}")
    lines += [f"options.add_session_config_entry({key!r}, {value!r})" for key, value in ort.config_entries.items()]
    lines += [
        f"options.add_free_dimension_override_by_name({key!r}, {value})"
        for key, value in ort.free_dimensions.items()
    ]
    providers = [(key, value) if value else key for key, value in ort.providers]
    return [
        *("import onnxruntime", "options = onnxruntime.SessionOptions()", *lines),
        f"session = onnxruntime.InferenceSession({name!r}, options, providers={providers})",
        f"outputs = session.run(None, {{{feeds}}})",
    ]


def _variable(name: str) -> str:
    found = re.sub(r"\W", "_", name)
    return f"input_{found}" if found[:1].isdigit() or iskeyword(found) else found


def _bench(job: ExportJob, file: str) -> str:
    options = job.bundle.deployment.run.options
    texts = {
        name: msgspec.json.encode(value).decode() if isinstance(value, dict) else option_text(value)
        for name, value in options.items()
    }
    words = [f"--option {quote_word(f'{name}={text}')}" for name, text in texts.items()]
    return " ".join([f"edgeopt bench {file} --backend {job.backend}", *words])


FORMAT = Format(NAME, "The model alone as ONNX, with its external data", write)
