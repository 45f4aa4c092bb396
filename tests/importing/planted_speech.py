"""A speech model in numpy as the original of an import, whose export has the fault that config.json names."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NEEDS = (("numpy", "numpy"), ("onnx", "onnx"))
MELS, FRAMES, PLACES = 4, 6, 3
spec = importlib.util.spec_from_file_location(
    "decoder", Path(__file__).parents[1] / "bundle" / "runtime" / "decoder.py"
)
decoder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(decoder)
random = np.random.default_rng(3)
PROJECTIONS = {
    part: random.standard_normal((MELS * FRAMES, PLACES * decoder.HIDDEN)).astype(np.float32)
    for part in ("key", "value")
}
HEARD = random.standard_normal((decoder.HIDDEN, decoder.VOCABULARY)).astype(np.float32)
HELD = decoder.weights()


def version():
    return "planted 1"


def load(job):
    return json.loads((Path(job.place) / "config.json").read_text())["fault"]


def inputs(original, job):
    def draw(generator):
        return generator.integers(0, decoder.VOCABULARY, (1, 8))

    job.dims = {"input_features": {0: "batch"}, "input_ids": {0: "batch", 1: "sequence"}}
    job.ranges["sequence"] = (1, 16)
    features = job.Input("input_features", "float32", [1, MELS, FRAMES])
    return [features, job.Input("input_ids", "int64", [1, 8], draw=draw)]


def encoded(features):
    """Returns keys and values of the cross attention."""
    shape = (len(features), PLACES, decoder.HEADS, decoder.WIDTH)
    flat = features.reshape(len(features), -1)
    return {
        f"past_key_values.0.encoder.{part}": (flat @ weights).reshape(shape).transpose(0, 2, 1, 3)
        for part, weights in PROJECTIONS.items()
    }


def run(original, feeds, job):
    """Adds a score for each token, which depends on keys times values of the sound, to those of the text."""
    keys, values = encoded(feeds["input_features"]).values()
    heard = (keys * values).mean(2).reshape(len(keys), 1, -1) @ HEARD
    return {"logits": np.stack([decoder.numpy_logits(HELD, ids) for ids in feeds["input_ids"]]) + heard}


def layers(original, feeds, job):
    return {}


def export(original, example, outputs, job):
    path = job.folder / "exported.onnx"
    decoder.write_decoder(path, seed=original == "weights", positions=False, mask=False)
    model = onnx.load(path)
    graph = model.graph
    for values in (graph.input, graph.output):
        for value in values:
            value.name = _decoder_name(value.name)
    for node in graph.node:
        node.input[:] = map(_decoder_name, node.input)
        node.output[:] = [_decoder_name(name).replace("logits", "of_text") for name in node.output]
    names = [f"past_key_values.0.encoder.{part}" for part in ("key", "value")]
    shape = ["batch", decoder.HEADS, "encoder_sequence", decoder.WIDTH]
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names)
    graph.initializer.append(numpy_helper.from_array(HEARD, "heard"))
    graph.initializer.append(numpy_helper.from_array(np.array([0, 1, decoder.HIDDEN]), "one_row"))
    graph.node.extend([
        helper.make_node("Mul", [names[0], names[original != "cross"]], ["product"]),
        helper.make_node("ReduceMean", ["product"], ["mean"], axes=[2], keepdims=0),
        helper.make_node("Reshape", ["mean", "one_row"], ["row_of_sound"]),
        helper.make_node("MatMul", ["row_of_sound", "heard"], ["of_sound"]),
        helper.make_node("Add", ["of_text", "of_sound"], ["logits"]),
    ])  # fmt: skip
    onnx.save(model, path)
    return "planted 1"


def _decoder_name(name):
    return name.replace("values.0.", "values.0.decoder.").replace("present.0.", "present.0.decoder.")
