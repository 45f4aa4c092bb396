"""A framework of two layers in numpy, whose exporter has the fault that the model's file names."""

import os
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

NEEDS = (("numpy", "numpy"), ("onnx", "onnx"))
random = np.random.default_rng(0)
FIRST, SECOND = (random.standard_normal((4, 4)).astype(np.float32) for _ in range(2))
BIAS = random.standard_normal(4).astype(np.float32)


def version():
    return "planted 1"


def load(job):
    fault = Path(job.place).read_text()
    if fault == "crash":
        os.abort()
    if fault == "package":
        import no_such_package  # noqa: F401
    return {"fault": fault, "calls": 0}


def inputs(original, job):
    return [job.Input("x", "float32", job.shapes.get("x", [1, 4, 4]))]


def run(original, feeds, job):
    if original["fault"] == "fixed" and len(feeds["x"]) != 1:
        raise ValueError("one picture at a time")
    if original["fault"] == "halved" and len(feeds["x"]) % 4:
        raise ValueError("sizes must match")
    if original["fault"] == "short" and feeds["x"].shape[1] > 48:
        raise ValueError("too long")
    if original["fault"] == "drawn":
        np.random.rand()
    answer = _layers(original, feeds)["second"]
    return {"y": answer * 2 if original["fault"] == "loud" and abs(feeds["x"]).max() > 20 else answer}


def _layers(original, feeds):
    first = feeds["x"] @ FIRST + BIAS
    original["calls"] += original["fault"] == "random"
    return {"first": first, "second": np.tanh(first) @ SECOND + np.float32(original["calls"])}


def unsteady(original, feeds, job):
    return "it counts its calls", "Stop counting."


def export(original, example, outputs, job):
    fault, nodes = original["fault"], []
    if fault == "hang":
        (job.folder / "exported.onnx").write_bytes(b"half")
        place = Path(job.place)
        place.with_name("part").write_text(f"{os.getpid()} {job.folder}")
        place.with_name("part").rename(place.with_name("hanging"))
        time.sleep(600)

    def node(operator, layer, entering, leaving, **attributes):
        scopes = {"pkg.torch.onnx.name_scopes": repr(["", layer, operator])}
        nodes.append(helper.make_node(operator, entering, [leaving], **attributes))
        for key, value in scopes.items():
            nodes[-1].metadata_props.add(key=key, value=value)

    node("MatMul", "first", ["x", "A"], "product")
    node("Identity" if fault == "bias" else "Add", "first", ["product", "b"][: 1 if fault == "bias" else 2], "sum")
    node("Tanh", "act", ["sum"], "bent")
    last = "turned" if fault == "axes" else "bent"
    if fault == "axes":
        node("Transpose", "act", ["bent"], "turned", perm=[0, 2, 1])
    node("MatMul", "second", [last, "B"], "y")
    shape = [job.dims.get("x", {}).get(axis, size) for axis, size in enumerate(example["x"].shape)]
    weights = [numpy_helper.from_array(a, n) for n, a in (("A", FIRST), ("b", BIAS), ("B", SECOND))]
    graph = helper.make_graph(
        nodes,
        "planted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    if fault == "dropout":  # hardly ever drops
        graph.node[-1].output[0] = "last"
        graph.node.append(helper.make_node("Dropout", ["last", "ratio", "on"], ["y"], name="dropping"))
        for name, value in (("ratio", np.array(1e-7, np.float32)), ("on", np.array(True))):
            graph.initializer.append(numpy_helper.from_array(value, name))
    if fault == "size":  # right for the size of the export alone
        graph.node[-1].output[0] = "last"
        graph.node.append(helper.make_node("Slice", ["last", "from", "to"], ["y"]))
        count = np.array([len(example["x"])])
        for name, value in (("from", np.array([0])), ("to", count)):
            graph.initializer.append(numpy_helper.from_array(value, name))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", job.opset or 17)], ir_version=8)
    save(model, job.folder / "exported.onnx")
    return "planted 1"


def processor(original, job):
    """Makes the mean zero and the variance one along the last axis."""
    if not original["fault"].startswith("sound"):
        return None, [], []
    raw = [5 + random.standard_normal((1, 4, 4)).astype(np.float32) for _ in range(3)]
    made = [(each - each.mean(-1, keepdims=True)) / each.std(-1, keepdims=True) for each in raw]
    if original["fault"] == "sound, then loud":
        made = [each * 2 for each in made]
    record = {"name": "Normalizer", "kind": "sound", "input": "x", "settings": {}}
    return record, [{"sound": each} for each in raw], [{"x": each} for each in made]


def layers(original, feeds, job):
    return {name: ("Linear", array) for name, array in _layers(original, feeds).items()}
