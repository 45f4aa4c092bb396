"""`triton`: a model repository for NVIDIA's Triton Inference Server, warmed up with the golden inputs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Options, TensorInfo
from edgeopt.backends.buckets import OPTIONS as BUCKETS
from edgeopt.backends.onnxruntime.options import OrtOptions, config_entries, run_entries
from edgeopt.bundle.golden import golden_floor_db
from edgeopt.commands.export.base import (
    BUNDLE,
    ExportedFiles,
    ExportJob,
    Format,
    check_model,
    copy_model,
    literal,
    ports,
    refuse,
)
from edgeopt.commands.export.settings import (
    ONNXRUNTIME,
    openvino_settings,
    option_text,
    ort_options,
    provider_of,
    runtime_of,
)
from edgeopt.errors import EdgeoptError
from edgeopt.graph.accuracy import compare_outputs

if TYPE_CHECKING:
    from openvino import Model


class Word(str):
    """The name of a value of an enumeration: written without quotes."""

    __slots__ = ()


def prototext(message: Mapping[str, object], indent: str = "") -> str:
    """Formats one field per line: lists as repeated fields, mappings as messages, lists of numbers in one line."""
    lines = []
    for name, value in message.items():
        if isinstance(value, list) and all(isinstance(each, int) for each in value):
            lines.append(f"{indent}{name}: [{', '.join(map(str, value))}]")
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Mapping):
                inside = prototext(each, indent + "  ")
                lines.append(f"{indent}{name} {{\n{inside}{indent}}}" if inside else f"{indent}{name} {{ }}")
            else:
                lines.append(f"{indent}{name}: {_scalar(each)}")
    return "".join(f"{line}\n" for line in lines)


def _scalar(value: object) -> str:
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return literal(value, b'"\\')
    return json.dumps(value)


NAME = "triton"
DATA_TYPES = {
    "bool": "TYPE_BOOL",
    "str": "TYPE_STRING",
    "float16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
    **{f"{kind}{bits}": f"TYPE_{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}


def _open_axis(ports: Sequence[TensorInfo]) -> str:
    """Returns why the first dimension is no open batch axis, as the end of a sentence; empty if it is one."""
    names = set()
    for port in ports:
        if not port.shape:
            return f"'{port.name}' is a single number"
        if isinstance(port.shape[0], int):
            return f"the first dimension of '{port.name}' is {port.shape[0]}"
        names.add(port.shape[0])
    named = sorted(str(name) for name in names - {None})
    return f"the first dimensions have different names: {', '.join(named)}" if len(named) > 1 else ""


def message(port: TensorInfo, batched: bool) -> dict[str, object]:
    """Returns a ModelInput or ModelOutput, without the batch axis; a scalar needs a dimension of 1."""
    shape = port.shape[1:] if batched else port.shape
    dims = [dim if isinstance(dim, int) else -1 for dim in shape]
    fields: dict[str, object] = {
        "name": port.name,
        "data_type": Word(DATA_TYPES[port.dtype]),
        "dims": dims or [1],
    }
    if not dims and batched:
        fields["reshape"] = {"shape": []}
    return fields


# The other levels have no number there; leaving it out is `all`.
_LEVELS = {"basic": -1, "extended": 1, "none": 2}
_INITIALIZERS = "session.use_device_allocator_for_initializers"


# The words are those that triton-inference-server/onnxruntime_backend and openvino_backend read.
@dataclass(slots=True)
class TritonParameters:
    parameters: dict[str, str] = field(default_factory=dict)
    optimization: dict[str, object] = field(default_factory=dict)
    carried: set[str] = field(default_factory=set)
    """The names of the options that Triton passes on."""

    def left_out(self, options: Options) -> list[str]:
        return [name for name in options if name not in self.carried]


def _onnxruntime_parameters(job: ExportJob) -> TritonParameters:
    options = ort_options(job)
    recorded = job.bundle.deployment.run.options
    words = TritonParameters()
    numbers = {"threads": "intra_op_thread_count", "inter_threads": "inter_op_thread_count"}
    for name, word in numbers.items():
        if getattr(options, name):
            words.parameters[word] = str(getattr(options, name))
    if options.execution_mode == "parallel":
        words.parameters["execution_mode"] = "1"
    if not options.arena:
        words.parameters["enable_mem_arena"] = "0"
    if not options.memory_pattern:
        words.parameters["enable_mem_pattern"] = "0"
    words.parameters |= run_entries(options, provider_of(job).gpu(options))
    if options.graph_level in _LEVELS:
        words.optimization["graph"] = {"level": _LEVELS[options.graph_level]}
    words.carried = {*numbers, "execution_mode", "arena", "memory_pattern", "arena_shrink"}
    words.carried |= {"graph_level"} if options.graph_level != "layout" else set()
    entries = config_entries(options)
    if _INITIALIZERS in entries:
        words.parameters[_INITIALIZERS] = entries[_INITIALIZERS]
    if set(options.entries.replace(" ", "").split(";")) <= {f"{_INITIALIZERS}={entries.get(_INITIALIZERS)}", ""}:
        words.carried.add("entries")
    # An explicit option with the default value can be dropped.
    words.carried |= {name for name in recorded if getattr(options, name) == getattr(OrtOptions(), name, None)}
    if provider_of(job).name == "onnxruntime-cuda":
        _cuda(job, options, words)
    return words


def _cuda(job: ExportJob, options: OrtOptions, words: TritonParameters) -> None:
    settings = provider_of(job).settings(options, job.bundle.model)
    settings.pop("device_id", None)  # the instance group says it
    if settings:
        accelerator = {"name": "cuda", "parameters": [{"key": k, "value": v} for k, v in settings.items()]}
        words.optimization["execution_accelerators"] = {"gpu_execution_accelerator": [accelerator]}
    own = set(type(options).__struct_fields__) - set(OrtOptions.__struct_fields__)
    words.carried |= own | {"io_binding"}  # Triton binds outputs by itself


def _openvino_parameters(job: ExportJob, device: str) -> TritonParameters:
    options = job.bundle.deployment.run.options
    words = TritonParameters({"PERFORMANCE_HINT": str(options.get("performance_hint", "latency")).upper()})
    for name, word in (
        ("threads", "INFERENCE_NUM_THREADS"),
        ("compile_threads", "COMPILATION_NUM_THREADS"),
        ("streams", "NUM_STREAMS"),
    ):
        if options.get(name):
            words.parameters[word] = str(options[name])
    words.carried = {"performance_hint", "threads", "compile_threads", "streams", "device", "devices", "mmap"}
    if options.get("precision") == "bf16":
        words.parameters["HINT_BF16"] = "YES"
        words.carried.add("precision")
    if device != "CPU":
        words.parameters["TARGET_DEVICE"] = device
    # OpenVINO takes these from the .xml.
    words.carried |= {"dynamic_quantization_group_size", "kv_cache_precision"}
    # An explicit option with the default value can be dropped.
    words.carried |= {name for name, value in options.items() if value in ("", False, 0) and name != "pinning"}
    return words


_ORT_BATCH = 8
"""Default maximum batch for ONNX Runtime, which also runs smaller batches as requests arrive."""


def _ort_batch(
    job: ExportJob, made: ExportedFiles, model: Path, options: dict[str, Any], both: list[TensorInfo]
) -> int:
    """Returns the maximum batch, after a run of two samples on the model's own batch axis; 0: no batches."""
    load = job.load
    found = _ORT_BATCH if load is None or load.batch == 1 else load.batch
    largest = found if job.max_batch_size is None else job.max_batch_size
    if largest == 0:
        return 0
    closed = _open_axis(both) or ("" if made.not_checked else _try_batch(job, model, options, 2))
    if closed and job.max_batch_size:
        raise refuse(job, NAME, f"it takes no batches: {closed}", "Leave out --max-batch-size.")
    if closed:
        made.notes.append(f"Requests run one by one (max_batch_size 0): {closed}.")
        return 0
    made.notes.append(
        f"Requests that come at the same time run together, up to {largest} (max_batch_size, dynamic_batching). "
        "The bundle was made for single ones; --max-batch-size 0 leaves it at that."
    )
    return largest


def _try_batch(job: ExportJob, model: Path, options: dict[str, Any], count: int) -> str:
    """Returns why samples fail in one run or give other results than alone, as the end of a sentence, or ""."""
    golden = job.bundle.golden("inputs")
    feeds = [golden[k % len(golden)] for k in range(count)]
    if any(
        array.shape[:1] != (1,) or array.shape != each[name].shape
        for each in feeds
        for name, array in golden[0].items()
    ):
        return "the golden samples cannot be put together, so it was not tried"
    whole = {name: np.concatenate([each[name] for each in feeds]) for name in feeds[0]}
    try:
        session = backend_named(job.backend).load(model, options)
        try:
            together = session.run(whole)
        finally:
            session.close()
    except EdgeoptError as error:
        return f"{count} samples in one run fail ({error.message.rstrip('.')})"
    if any(array.shape[:1] != (count,) for array in together.values()):
        return f"{count} samples in one run do not give {count} results"
    parts = [{name: array[k : k + 1] for name, array in together.items()} for k in range(count)]
    alone = job.bundle.golden("reference")
    found = compare_outputs([alone[k % len(alone)] for k in range(count)], parts)
    if found.snr_db < golden_floor_db(job.bundle):
        return f"{count} samples in one run give other results than each alone ({found.snr_db:.1f} dB)"
    return ""


def _require_batch(
    job: ExportJob, model: Path, options: dict[str, Any], inputs: tuple[TensorInfo, ...], batch: int
) -> None:
    """Raises an error unless the model runs the whole batch in a fixed shape, as Triton runs it."""
    feeds = job.bundle.golden("inputs")[0]
    shapes = {port.name: [batch, *feeds[port.name].shape[1:]] for port in inputs}
    failed = _try_batch(job, model, {**options, "shapes": shapes}, batch)
    if failed:
        raise refuse(job, NAME, f"it takes no batches: {failed}", "Leave out --max-batch-size.")


_BACKENDS = ("onnxruntime-cpu", "onnxruntime-cuda", *(f"openvino-{on}" for on in ("cpu", "gpu", "npu", "auto")))


def write(job: ExportJob, folder: Path) -> ExportedFiles:
    runtime = runtime_of(job, NAME)
    if job.backend not in _BACKENDS:
        raise refuse(job, NAME, f"Triton has no backend for {job.backend}", "Use --to runner or --to onnx.")
    name = job.file_name
    place = folder / name / "1"
    made = ExportedFiles(
        use=[
            "tritonserver --model-repository=.",
            f"edgeopt bench {BUNDLE} --against http://127.0.0.1:8000/v2/models/{name}",
        ]
    )
    config = _onnxruntime(job, place, made) if runtime == ONNXRUNTIME else _openvino(job, place, made)
    version = job.bundle.deployment.runtimes.get(runtime)
    if version:
        made.notes.append(f"The bundle was made with {runtime} {version}; Triton brings a version of its own.")
    (folder / name / "config.pbtxt").write_text(_HEAD + prototext({"name": name, **config}), encoding="ascii")
    return made


_FIX_SHAPES = "Optimize a model with fixed shapes: edgeopt simplify MODEL -o FIXED.onnx --shape NAME=1x3x224x224"
_HEAD = "# Written by `edgeopt export --to triton`; README.md says what it does not carry.\n"


def _onnxruntime(job: ExportJob, place: Path, made: ExportedFiles) -> dict[str, object]:
    model = copy_model(job, place, "model.onnx")
    inputs, outputs = _checked_ports(job, *ports(job, job.bundle.model, job.backend))
    words = _onnxruntime_parameters(job)
    carried = {name: value for name, value in job.bundle.deployment.run.options.items() if name in words.carried}
    _note_left_out(job, words, made)
    check_model(job, made, model, job.backend, carried)
    batch = _ort_batch(job, made, model, carried, [*inputs, *outputs])
    instance: dict[str, object] = {"count": _instances(job, made), "kind": Word("KIND_CPU")}
    if job.backend == "onnxruntime-cuda":
        device = getattr(ort_options(job), "device_id", 0)
        instance |= {"kind": Word("KIND_GPU"), "gpus": [device]}
    return _config(job, place, "onnxruntime", words, batch, (inputs, outputs), instance)


def _openvino(job: ExportJob, place: Path, made: ExportedFiles) -> dict[str, object]:
    from edgeopt.commands.export.openvino_ir import converted, save

    settings = openvino_settings(job)
    model = converted(job, NAME)
    if model.get_variables():
        raise refuse(
            job,
            NAME,
            "it keeps a state, which Triton would carry from one request to the next",
            "Use --to runner.",
        )
    batch = job.max_batch_size or 0
    # A bundle with buckets is for other sizes, too.
    bucketed = "buckets" in job.bundle.deployment.run.options
    shapes = _fixed(made, model, {} if bucketed else settings.shapes, batch)
    saved = save(job, model, place / "model.xml")
    inputs, outputs = _checked_ports(job, *ports(job, saved, job.backend))
    scalar = next((port.name for port in inputs if not port.shape), None)
    if scalar is not None:
        raise refuse(
            job, NAME, f"'{scalar}' is a single number, which Triton's OpenVINO backend does not take",
            "Give it a dimension of 1 in the model.",
        )  # fmt: skip
    if batch and (closed := _open_axis([*inputs, *outputs])):
        raise refuse(job, NAME, f"it takes no batches: {closed}", "Leave out --max-batch-size.")
    words = _openvino_parameters(job, settings.device)
    words.carried |= {"shapes"} if shapes or bucketed or not settings.shapes else set()
    words.carried |= set(BUCKETS)  # the notes of every format mention them
    if batch:
        words.parameters["ENABLE_BATCH_PADDING"] = "YES"
    carried = {name: value for name, value in job.bundle.deployment.run.options.items() if name in words.carried}
    for name in ("shapes", *BUCKETS):
        carried.pop(name, None)  # in the model itself by now, or left out
    _note_left_out(job, words, made)
    check_model(job, made, saved, job.backend, carried)
    if batch and not made.not_checked:
        _require_batch(job, saved, carried, inputs, batch)
    kind: dict[str, object] = {"count": _instances(job, made), "kind": Word("KIND_CPU")}
    return _config(job, place, "openvino", words, batch, (inputs, outputs), kind)


def _instances(job: ExportJob, made: ExportedFiles) -> int:
    """Returns how many requests the bundle runs at once: each takes an instance of Triton."""
    if job.load is None or job.load.callers == 1:
        return 1
    count = job.load.callers
    made.notes.append(
        f"{count} requests run at once (instance_group), as in the search for throughput. The bundle runs them in "
        "one session; an instance may have its own, with the memory and threads of one."
    )
    return count


def _fixed(made: ExportedFiles, model: "Model", shapes: dict[str, list[int]], batch: int) -> bool:
    """Fixes the inputs to the shapes of the bundle, which Triton cannot; the first axis stays for batches."""
    from edgeopt.backends.openvino.model import port_name

    if batch:
        made.notes.append(
            f"Triton's OpenVINO backend fills every run up to {batch} samples (ENABLE_BATCH_PADDING), so a "
            "request alone takes as long as all of them."
        )
    else:
        made.notes.append(
            "Requests run one by one (max_batch_size 0): Triton's OpenVINO backend fills each run up to the whole "
            "batch, which would slow down single requests. --max-batch-size N asks for it."
        )
    if not shapes:
        return False
    by_name = {port_name(port): port for port in model.inputs}
    model.reshape({by_name[name]: [-1, *shape[1:]] if batch else shape for name, shape in shapes.items()})
    sizes = "; ".join(
        f"{name} {'x'.join(map(str, shape[1:] if batch else shape))}" for name, shape in shapes.items()
    )
    made.notes.append(f"It takes only the shapes that the bundle was optimized for: {sizes}.")
    return True


def _note_left_out(job: ExportJob, words: TritonParameters, made: ExportedFiles) -> None:
    options = job.bundle.deployment.run.options
    for name in words.left_out(options):
        if name == "precision":
            made.notes.append(
                f"Triton cannot set precision={options[name]}: on a processor that has bf16, OpenVINO computes in "
                "bf16 there. The golden samples were run that way here; run them again on the server."
            )
        else:
            made.notes.append(
                f"Triton does not support the option {name}={option_text(options[name])}; the runtime uses "
                "its default."
            )


def _checked_ports(
    job: ExportJob, inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]
) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """Returns the inputs and outputs if a configuration can state all of them; raises an error otherwise."""
    for port in (*inputs, *outputs):
        if not port.rank_known:
            reason = f"nothing is known of the number of dimensions of '{port.name}'"
        elif port.dtype not in DATA_TYPES:
            reason = f"Triton has no name for the type of '{port.name}', {port.dtype}"
        elif 0 in port.shape:
            reason = f"a dimension of '{port.name}' is 0"
        else:
            continue
        raise refuse(job, NAME, reason, _FIX_SHAPES)
    return inputs, outputs


def _config(
    job: ExportJob,
    place: Path,
    backend: str,
    words: TritonParameters,
    batch: int,
    both: tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]],
    instance: dict[str, object],
) -> dict[str, object]:
    """Returns a ModelConfig, in the order of Triton's own examples."""
    inputs, outputs = both
    config: dict[str, object] = {
        "backend": backend,
        "max_batch_size": batch,
        "input": [message(port, batch > 0) for port in inputs],
        "output": [message(port, batch > 0) for port in outputs],
        "instance_group": [instance],
    }
    if batch > 1:
        best = 1 if job.load is None else job.load.batch
        config["dynamic_batching"] = {"preferred_batch_size": [best]} if 1 < best <= batch else {}
    if words.optimization:
        config["optimization"] = words.optimization
    if words.parameters:
        config["parameters"] = [
            {"key": key, "value": {"string_value": value}} for key, value in words.parameters.items()
        ]
    warmup = _warmup(job, place.parent / "warmup", inputs, batch)
    return config | ({"model_warmup": warmup} if warmup else {})


def _warmup(job: ExportJob, folder: Path, inputs: tuple[TensorInfo, ...], batch: int) -> list[dict[str, object]]:
    """Writes the first golden sample as files of the tensors' bytes, run before the model counts as ready."""
    feeds = job.bundle.golden("inputs")[0]
    odd = any(array.dtype.kind in "OUS" or array.size == 0 for array in feeds.values())
    if odd or (batch and any(array.shape[:1] != (1,) for array in feeds.values())):
        return []
    folder.mkdir(parents=True, exist_ok=True)
    entries = [_warm_input(folder, number, port, feeds[port.name], batch) for number, port in enumerate(inputs)]
    return [{"name": "golden sample 0", "batch_size": 1, "inputs": entries}]


def _warm_input(folder: Path, number: int, port: TensorInfo, array: Array, batch: int) -> dict[str, object]:
    file = folder / f"golden_0_input_{number}"
    file.write_bytes(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes())
    dims = list(array.shape[1:] if batch else array.shape) or [1]
    value = {"data_type": Word(DATA_TYPES[port.dtype]), "dims": dims, "input_data_file": file.name}
    return {"key": port.name, "value": value}


FORMAT = Format(NAME, "A model repository for Triton: config.pbtxt, warm-up from the golden inputs", write, True)
