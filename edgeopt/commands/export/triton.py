"""`triton`: a model repository for NVIDIA's Triton Inference Server, warmed up with the golden inputs."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.backends.buckets import OPTIONS as BUCKETS
from edgeopt.commands.export.base import Format, Made, Order, refuse
from edgeopt.commands.export.checking import check_model, ports
from edgeopt.commands.export.models import copy_model
from edgeopt.commands.export.prototext import Word, prototext
from edgeopt.commands.export.settings import ONNXRUNTIME, openvino_settings, option_text, ort_options, runtime_of
from edgeopt.commands.export.triton_batch import ort_batch, require_batch
from edgeopt.commands.export.triton_options import Words, onnxruntime_words, openvino_words
from edgeopt.commands.export.triton_ports import DATA_TYPES, NAME, message, open_axis, unsaid

if TYPE_CHECKING:
    from openvino import Model

_BACKENDS = (
    "onnxruntime-cpu",
    "onnxruntime-cuda",
    "openvino-cpu",
    "openvino-gpu",
    "openvino-npu",
    "openvino-auto",
)


def write(order: Order, folder: Path) -> Made:
    runtime = runtime_of(order, NAME)
    if order.backend not in _BACKENDS:
        raise refuse(order, NAME, f"Triton has no backend for {order.backend}", "Use --to runner or --to onnx.")
    name = order.file_name
    place = folder / name / "1"
    made = Made(
        use=[
            "tritonserver --model-repository=.",
            f"edgeopt bench BUNDLE --against http://127.0.0.1:8000/v2/models/{name}",
        ]
    )
    config = _onnxruntime(order, place, made) if runtime == ONNXRUNTIME else _openvino(order, place, made)
    version = order.bundle.deployment.runtimes.get(runtime)
    if version:
        made.notes.append(f"It was proved with {runtime} {version}; Triton brings a version of its own.")
    (folder / name / "config.pbtxt").write_text(_HEAD + prototext({"name": name, **config}), encoding="ascii")
    return made


_FIX_SHAPES = "Optimize a model with fixed shapes: edgeopt simplify MODEL -o FIXED.onnx --shape NAME=1x3x224x224"
_HEAD = "# Written by `edgeopt export --to triton`; README.md says what it does not carry.\n"


def _onnxruntime(order: Order, place: Path, made: Made) -> dict[str, object]:
    model = copy_model(order, place, "model.onnx")
    inputs, outputs = _sayable(order, *ports(order, order.bundle.model, order.backend))
    words = onnxruntime_words(order)
    carried = {name: value for name, value in order.bundle.deployment.run.options.items() if name in words.carried}
    _say_left_out(order, words, made)
    check_model(order, made, model, order.backend, carried)
    batch = ort_batch(order, made, model, carried, [*inputs, *outputs])
    instance: dict[str, object] = {"count": 1, "kind": Word("KIND_CPU")}
    if order.backend == "onnxruntime-cuda":
        device = getattr(ort_options(order), "device_id", 0)
        instance = {"count": 1, "kind": Word("KIND_GPU"), "gpus": [device]}
    return _config(order, place, "onnxruntime", words, batch, (inputs, outputs), instance)


def _openvino(order: Order, place: Path, made: Made) -> dict[str, object]:
    from edgeopt.commands.export.openvino_ir import converted, save

    settings = openvino_settings(order)
    model = converted(order, NAME)
    if model.get_variables():
        raise refuse(
            order,
            NAME,
            "it keeps a state, which Triton would carry from one request to the next",
            "Use --to runner.",
        )
    batch = order.max_batch_size or 0
    # A bundle with buckets is for other sizes, too.
    bucketed = "buckets" in order.bundle.deployment.run.options
    shapes = _fixed(made, model, {} if bucketed else settings.shapes, batch)
    saved = save(order, model, place / "model.xml")
    inputs, outputs = _sayable(order, *ports(order, saved, order.backend))
    scalar = next((port.name for port in inputs if not port.shape), None)
    if scalar is not None:
        raise refuse(
            order, NAME, f"'{scalar}' is a single number, which Triton's OpenVINO backend does not take",
            "Give it a dimension of 1 in the model.",
        )  # fmt: skip
    if batch and (closed := open_axis([*inputs, *outputs])):
        raise refuse(order, NAME, f"it takes no batches: {closed}", "Leave out --max-batch-size.")
    words = openvino_words(order, settings.device)
    words.carried |= {"shapes"} if shapes or bucketed or not settings.shapes else set()
    words.carried |= set(BUCKETS)  # which the notes of every form speak of
    if batch:
        words.parameters["ENABLE_BATCH_PADDING"] = "YES"
    carried = {name: value for name, value in order.bundle.deployment.run.options.items() if name in words.carried}
    for name in ("shapes", *BUCKETS):
        carried.pop(name, None)  # in the model itself by now, or left out
    _say_left_out(order, words, made)
    check_model(order, made, saved, order.backend, carried)
    if batch and not made.not_checked:
        require_batch(order, saved, carried, inputs, batch)
    kind: dict[str, object] = {"count": 1, "kind": Word("KIND_CPU")}
    return _config(order, place, "openvino", words, batch, (inputs, outputs), kind)


def _fixed(made: Made, model: "Model", shapes: dict[str, list[int]], batch: int) -> bool:
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
    said = "; ".join(
        f"{name} {'x'.join(map(str, shape[1:] if batch else shape))}" for name, shape in shapes.items()
    )
    made.notes.append(f"It takes only the shapes that the bundle was optimized for: {said}.")
    return True


def _say_left_out(order: Order, words: Words, made: Made) -> None:
    options = order.bundle.deployment.run.options
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


def _sayable(
    order: Order, inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]
) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    reason = unsaid([*inputs, *outputs])
    if reason:
        raise refuse(order, NAME, reason, _FIX_SHAPES)
    return inputs, outputs


def _config(
    order: Order,
    place: Path,
    backend: str,
    words: Words,
    batch: int,
    both: tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]],
    instance: dict[str, object],
) -> dict[str, object]:
    """A ModelConfig, in the order of Triton's own examples."""
    inputs, outputs = both
    config: dict[str, object] = {
        "backend": backend,
        "max_batch_size": batch,
        "input": [message(port, batch > 0) for port in inputs],
        "output": [message(port, batch > 0) for port in outputs],
        "instance_group": [instance],
    }
    if batch > 1:
        config["dynamic_batching"] = {}
    if words.optimization:
        config["optimization"] = words.optimization
    if words.parameters:
        config["parameters"] = [
            {"key": key, "value": {"string_value": value}} for key, value in words.parameters.items()
        ]
    warmup = _warmup(order, place.parent / "warmup", inputs, batch)
    return config | ({"model_warmup": warmup} if warmup else {})


def _warmup(order: Order, folder: Path, inputs: tuple[TensorInfo, ...], batch: int) -> list[dict[str, object]]:
    """The first golden sample, in files of the tensors' bytes, run before the model counts as ready."""
    feeds = order.bundle.golden("inputs")[0]
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
