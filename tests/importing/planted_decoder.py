"""A decoder in numpy as the original of an import, whose export has the fault that config.json names."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx

from edgeopt.importing import children


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


lm_child = module(Path(children.__file__).with_name("lm_child.py"))
decoder = module(Path(__file__).parents[1] / "bundle" / "runtime" / "decoder.py")
NEEDS = (("numpy", "numpy"), ("onnx", "onnx"))
inputs, layers, run_sizes = lm_child.inputs, lm_child.layers, lm_child.run_sizes
HELD = decoder.weights()


def version():
    return "planted 1"


def load(job):
    config = json.loads((Path(job.place) / "config.json").read_text())
    return SimpleNamespace(module=SimpleNamespace(config=SimpleNamespace(**config)), batches=True)


def run(original, feeds, job):
    """Runs each text without the padding on its left."""
    ids = feeds["input_ids"]
    logits = np.zeros((*ids.shape, decoder.VOCABULARY), np.float32)
    for row, (text, mask) in enumerate(zip(ids, feeds.get("attention_mask", np.ones_like(ids)), strict=True)):
        logits[row, mask > 0] = decoder.numpy_logits(HELD, text[mask > 0])
    return {"logits": logits}


lm_child.run = run


def export(original, example, outputs, job):
    fault, path = original.module.config.fault, job.folder / "exported.onnx"
    if fault == "builder":  # which is right when the exporter writes the graph
        fault = "weights" if job.builder else "none"
    decoder.write_decoder(path, seed=fault == "weights", positions=fault != "positions")
    model = onnx.load(path)
    for node in model.graph.node:
        if fault == "cache" and node.op_type == "Concat":  # new tokens before the old ones
            node.input[:] = reversed(node.input)
    onnx.save(model, path)
    return "onnxruntime-genai 1" if fault == "weights" and job.builder else "planted 1"
