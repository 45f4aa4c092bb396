"""Exporter of Keras models with Keras' own exporter, and of SavedModels and TFLite models with tf2onnx."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from edgeopt.importing.children.child import Feeds, Input, Job

NEEDS = (("onnx", "onnx"),)
BACKENDS = {"tensorflow": "tf2onnx", "torch": "onnxscript", "jax": "jax2onnx"}
"""Backends of Keras, with the package that its exporter needs for each."""
FREE_SIZE = 32
AGAIN = "Save or download it again."
_versions: list[str] = []


class OpenedModel:
    """Opened model: its inputs, a call and a conversion."""

    def __init__(self, specs: list[tuple[str, Any, str]], call: Callable[[Feeds], Feeds], convert: Any) -> None:
        self.specs, self.call, self.convert = specs, call, convert
        self.words = 2
        """Limit of the integers of the model's inputs, which are less than this."""


def version() -> str:
    return ", ".join(_versions)


def load(job: Job) -> OpenedModel:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if job.axes:
        job.refuse("usage", "The model has its open dimensions already.", "Leave out --dynamic.")
    return {"savedmodel": _saved_model, "tflite": _tflite}.get(job.kind, _keras)(job)


def inputs(original: OpenedModel, job: Job) -> list[Input]:
    return [_input(job, original, *spec) for spec in original.specs]


def _input(job: Job, original: OpenedModel, name: str, shape: Any, dtype: str) -> Input:
    """Returns an input; its open dimensions are named by axis, as those of several inputs are mostly equal."""
    used_shape, kind = job.shapes.get(name), np.dtype(dtype)
    if used_shape is None:
        used_shape = [size or (FREE_SIZE if axis else 1) for axis, size in enumerate(shape)]
    dims = {axis: f"dim_{axis}" if axis else "batch" for axis, size in enumerate(shape) if size is None}
    if dims:
        job.dims[name] = dims
    if kind.kind not in "iu":
        return job.Input(name, dtype, used_shape)
    low, high = (np.iinfo(kind).min, np.iinfo(kind).max + 1) if kind.itemsize == 1 else (0, original.words)
    return job.Input(
        name, dtype, used_shape, draw=lambda random: random.integers(low, high, used_shape).astype(kind)
    )


def run(original: OpenedModel, feeds: Feeds, job: Job) -> Feeds:  # noqa: ARG001
    return original.call(feeds)


def unsteady(original: OpenedModel, feeds: Feeds, job: Job) -> tuple[str, str]:  # noqa: ARG001
    return "it draws random numbers or changes its state", "Remove that from the model before saving it."


def export(original: OpenedModel, example: Feeds, outputs: list[str], job: Job) -> str:  # noqa: ARG001
    return str(original.convert(outputs))


def layers(original: OpenedModel, feeds: Feeds, job: Job) -> dict[str, tuple[str, Any]]:  # noqa: ARG001
    """Returns no layers: the exporters do not keep their names."""
    return {}


def _keras(job: Job) -> OpenedModel:
    for name in BACKENDS:
        if importlib.util.find_spec(name) is not None:
            os.environ.setdefault("KERAS_BACKEND", name)
    job.need("keras", "keras")
    chosen = os.environ.get("KERAS_BACKEND", "tensorflow")
    job.need(chosen, chosen)
    import keras

    backend = keras.backend.backend()
    job.need(BACKENDS.get(backend, backend), BACKENDS.get(backend, backend))
    _versions.append(f"Keras {keras.__version__} ({backend})")
    try:
        model = keras.models.load_model(job.place, compile=False, safe_mode=not job.trust)
    except Exception as error:
        if "safe_mode" in str(error) or "Lambda" in str(error):
            job.refuse(
                "usage", "A Lambda layer of the model can run any code.", "Add --trust if you trust its author."
            )
        job.refuse(
            "bad-model",
            f"Keras cannot load it: {job.reason(error)}.",
            f"{AGAIN} A model with classes of its own: model.export(FOLDER), and import that.",
        )
    try:
        structure = model.inputs if isinstance(model, keras.Sequential) else model.input
    except AttributeError:
        job.refuse("bad-model", "The model has no fixed inputs.", "Call it on sample inputs before saving it.")
    tensors = keras.tree.flatten(structure)
    names = [tensor.name for tensor in tensors]

    def call(feeds: Feeds) -> Feeds:
        arguments = keras.tree.pack_sequence_as(
            structure, [keras.ops.convert_to_tensor(feeds[name]) for name in names]
        )
        found = model(arguments[0] if isinstance(model, keras.Sequential) else arguments, training=False)
        arrays = [keras.ops.convert_to_numpy(each) for each in keras.tree.flatten(found)]
        named = sorted(found) if isinstance(found, Mapping) else getattr(model, "output_names", ["output"])
        return dict(zip(named, arrays))

    def convert(outputs: list[str]) -> str:
        path = job.folder / "exported.onnx"
        try:
            model.export(str(path), format="onnx", verbose=False, opset_version=job.opset)
        except ImportError:
            raise
        except Exception as error:
            job.refuse("bad-model", f"Keras cannot export it: {job.reason(error)}.", "Try another KERAS_BACKEND.")
        job.tidy(inputs=names, outputs=outputs)
        return f"Keras {keras.__version__} ({backend}, {BACKENDS[backend]})"

    original = OpenedModel([(each.name, each.shape, each.dtype) for each in tensors], call, convert)
    words = [layer.input_dim for layer in model._flatten_layers() if isinstance(layer, keras.layers.Embedding)]
    original.words = min(words, default=original.words)
    return original


def _saved_model(job: Job) -> OpenedModel:
    job.need("tensorflow", "tensorflow")
    job.need("tf2onnx", "tf2onnx")
    import tensorflow as tf

    _versions.append(f"TensorFlow {tf.__version__}")
    try:
        model = tf.saved_model.load(job.place)
    except Exception as error:
        job.refuse("bad-model", f"TensorFlow cannot load it: {job.reason(error)}.", AGAIN)
    names = [name for name in model.signatures if not name.startswith("__")]
    if not names:
        job.refuse(
            "bad-model",
            "The SavedModel has no signature, so it has no inputs.",
            "Save it with model.export(FOLDER), or with tf.saved_model.save(..., signatures=FUNCTION).",
        )
    key = "serving_default" if "serving_default" in names else names[0]
    if len(names) > 1 and key != "serving_default":
        job.notes.append(f"Of its signatures, '{key}' was imported.")
    function = model.signatures[key]
    specs = [
        (name, list(spec.shape), spec.dtype.name) for name, spec in function.structured_input_signature[1].items()
    ]

    def call(feeds: Feeds) -> Feeds:
        found = function(**{name: tf.constant(array) for name, array in feeds.items()})
        return {name: value.numpy() for name, value in found.items()}

    def convert(outputs: list[str]) -> str:  # noqa: ARG001 - tf2onnx gives them the same names
        made = _tf2onnx(job, "--saved-model", job.place, "--signature_def", key, "--tag", "serve")
        job.tidy()
        return made

    found = OpenedModel(specs, call, convert)
    found.model = model  # type: ignore[attr-defined]  # its variables go with it
    return found


def _tflite(job: Job) -> OpenedModel:
    job.need("tensorflow", "tensorflow")  # tf2onnx imports it
    job.need("tf2onnx", "tf2onnx")
    if importlib.util.find_spec("ai_edge_litert") is not None:
        from ai_edge_litert import interpreter as lite

        _versions.append(f"LiteRT {importlib.metadata.version('ai-edge-litert')}")
    else:
        from tensorflow import __version__, lite

        _versions.append(f"TensorFlow Lite {__version__}")
    try:
        interpreter = lite.Interpreter(model_path=job.place, num_threads=job.threads or None)
        interpreter.allocate_tensors()
    except Exception as error:
        job.refuse("bad-model", f"The interpreter cannot load it: {job.reason(error)}.", AGAIN)
    signatures = list(interpreter.get_signature_list())
    if len(signatures) == 1:
        runner = interpreter.get_signature_runner(signatures[0])
        taken, produced = runner.get_input_details(), runner.get_output_details()
    else:
        taken = {each["name"]: each for each in interpreter.get_input_details()}
        produced = {each["name"]: each for each in interpreter.get_output_details()}
    specs = [
        (name, [None if n < 0 else int(n) for n in each["shape_signature"]], np.dtype(each["dtype"]).name)
        for name, each in taken.items()
    ]

    def call(feeds: Feeds) -> Feeds:
        for name, each in taken.items():
            interpreter.resize_tensor_input(each["index"], feeds[name].shape)
        interpreter.allocate_tensors()
        for name, each in taken.items():
            interpreter.set_tensor(each["index"], feeds[name])
        interpreter.invoke()
        return {name: interpreter.get_tensor(each["index"]) for name, each in produced.items()}

    def convert(outputs: list[str]) -> str:  # noqa: ARG001 - the tensors of the file have the names
        made = _tf2onnx(job, "--tflite", job.place)
        job.tidy({each["name"]: name for parts in (taken, produced) for name, each in parts.items()})
        return made

    return OpenedModel(specs, call, convert)


def _tf2onnx(job: Job, *arguments: str) -> str:
    """Runs tf2onnx by its command line, the only interface that it documents for both SavedModel and TFLite."""
    import tf2onnx

    path = job.folder / "exported.onnx"
    opset = ("--opset", str(job.opset)) if job.opset else ()
    command = [sys.executable, "-m", "tf2onnx.convert", *arguments, "--output", str(path), *opset]
    done = subprocess.run(command, cwd=job.folder, capture_output=True, text=True, check=False)
    if done.returncode or not path.exists():
        reason = next((line for line in reversed(done.stderr.splitlines()) if "Error" in line), done.stderr[-200:])
        job.refuse(
            "bad-model",
            f"tf2onnx cannot convert it: {reason.strip()}.",
            "Replace the operator, or try another --opset.",
        )
    return f"tf2onnx {tf2onnx.__version__}"
