"""A decoder of one attention layer with the ports of Hugging Face's exports, and the same in numpy."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgeopt
from edgeopt.backends.base import TensorInfo

BACKENDS = {"onnxruntime-cpu": {}, "openvino-cpu": {"precision": "f32"}}
VOCABULARY, HEADS, WIDTH, CONTEXT = 29, 2, 8, 64
HIDDEN = HEADS * WIDTH
PAIRS = {f"past_key_values.0.{part}": f"present.0.{part}" for part in ("key", "value")}


def weights(seed=0):
    """Returns random weights with which each token attends to many others, and generated tokens vary."""
    random = np.random.default_rng(seed)
    shapes = {
        "tokens": (VOCABULARY, HIDDEN, 1.5),
        "places": (CONTEXT, HIDDEN, 1.5),
        "query": (HIDDEN, HIDDEN, 0.04),
        **dict.fromkeys(("key", "value", "mix"), (HIDDEN, HIDDEN, 0.4)),
        "scores": (HIDDEN, VOCABULARY, 0.4),
    }
    return {
        name: (random.standard_normal((rows, columns)) * deviation).astype(np.float32)
        for name, (rows, columns, deviation) in shapes.items()
    }


def numpy_logits(held, ids):
    """Returns the logits after each token of one sequence."""
    split = lambda rows: rows.reshape(len(ids), HEADS, WIDTH).transpose(1, 0, 2)  # noqa: E731
    x = (held["tokens"][ids] + held["places"][: len(ids)]).astype(np.float64)
    query, key, value = (split(x @ held[name]) for name in ("query", "key", "value"))
    attention = query @ key.transpose(0, 2, 1)
    attention = np.where(np.tril(np.ones((len(ids), len(ids)), bool)), attention, -1e9)
    attention = np.exp(attention - attention.max(axis=-1, keepdims=True))
    mixed = attention / attention.sum(axis=-1, keepdims=True) @ value
    return (x + mixed.transpose(1, 0, 2).reshape(len(ids), HIDDEN) @ held["mix"]) @ held["scores"]


def scripted_weights(following, vocabulary):
    """Returns weights with which each token is followed by the one that `following` has for it."""
    random = np.random.default_rng(0)
    tokens = random.standard_normal((vocabulary, HIDDEN)).astype(np.float32)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    scores = np.zeros((HIDDEN, vocabulary), np.float32)
    for token, next_token in following.items():
        scores[:, next_token] += tokens[token]
    still = dict.fromkeys(("query", "key", "value", "mix"), np.zeros((HIDDEN, HIDDEN), np.float32))
    return {"tokens": tokens, "places": np.zeros((CONTEXT, HIDDEN), np.float32), **still, "scores": scores}


def write_decoder(path, seed=0, *, positions=True, mask=True, sequence="sequence", held=None):
    """Writes the decoder; without `positions` it counts them itself, without `mask` it attends to all before.

    `held` are its weights; without them they are random ones of the seed.
    """
    held = held or weights(seed)
    constants = {
        "one": np.array([1]),
        "two": np.array([2]),
        "zero_": np.array(0),
        "one_": np.array(1),
        "axis0": np.array([0]),
        "heads": np.array([0, 0, HEADS, WIDTH]),
        "flat": np.array([0, 0, HIDDEN]),
        "batches": np.array([1, 2]),
        "never": np.array(-1e9, np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Gather", ["tokens", "input_ids"], ["embedded"]),
        node("Shape", ["past_key_values.0.key"], ["past_shape"]),
        node("Gather", ["past_shape", "two"], ["past_1"]),
        node("Squeeze", ["past_1", "axis0"], ["past"]),
        node("Shape", ["input_ids"], ["ids_shape"]),
        node("Gather", ["ids_shape", "one"], ["new_1"]),
        node("Squeeze", ["new_1", "axis0"], ["new"]),
        node("Add", ["past", "new"], ["total"]),
        node("Range", ["past", "total", "one_"], ["rows"]),
        node("Range", ["zero_", "total", "one_"], ["columns"]),
        node("Gather", ["places", "position_ids" if positions else "rows"], ["placed"]),
        node("Add", ["embedded", "placed"], ["x"]),
        *(
            each
            for name in ("query", "key", "value")
            for each in (
                node("MatMul", ["x", name], [f"{name}_flat"]),
                node("Reshape", [f"{name}_flat", "heads"], [f"{name}_split"]),
                node("Transpose", [f"{name}_split"], [f"{name}_new"], perm=[0, 2, 1, 3]),
            )
        ),
        *(node("Concat", [past, f"{past[18:]}_new"], [present], axis=2) for past, present in PAIRS.items()),
        node("Transpose", ["present.0.key"], ["keys"], perm=[0, 1, 3, 2]),
        node("MatMul", ["query_new", "keys"], ["attention"]),
        node("Unsqueeze", ["rows", "one"], ["row"]),
        node("LessOrEqual", ["columns", "row"], ["before"]),
        *(
            (
                node("Cast", ["attention_mask"], ["held"], to=TensorProto.BOOL),
                node("Unsqueeze", ["held", "batches"], ["held_4"]),
                node("And", ["before", "held_4"], ["seen"]),
            )
            if mask
            else (node("Identity", ["before"], ["seen"]),)
        ),
        node("Where", ["seen", "attention", "never"], ["masked"]),
        node("Softmax", ["masked"], ["shares"], axis=-1),
        node("MatMul", ["shares", "present.0.value"], ["mixed"]),
        node("Transpose", ["mixed"], ["joined"], perm=[0, 2, 1, 3]),
        node("Reshape", ["joined", "flat"], ["joined_flat"]),
        node("MatMul", ["joined_flat", "mix"], ["added"]),
        node("Add", ["x", "added"], ["y"]),
        node("MatMul", ["y", "scores"], ["logits"]),
    ]
    info = helper.make_tensor_value_info
    integers = [
        ("input_ids", sequence, True),
        ("attention_mask", "total", mask),
        ("position_ids", sequence, positions),
    ]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            *(info(name, TensorProto.INT64, ["batch", size]) for name, size, used in integers if used),
            *(info(name, TensorProto.FLOAT, ["batch", HEADS, "past", WIDTH]) for name in PAIRS),
        ],
        [
            info("logits", TensorProto.FLOAT, ["batch", sequence, held["scores"].shape[1]]),
            *(info(name, TensorProto.FLOAT, ["batch", HEADS, "total", WIDTH]) for name in PAIRS.values()),
        ],
        [numpy_helper.from_array(array, name) for name, array in {**held, **constants}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def load(path, backend="onnxruntime-cpu"):
    pytest.importorskip(backend.removesuffix("-cpu"))
    return edgeopt.load(path, backend, BACKENDS[backend])


def ports(**shapes):
    return tuple(TensorInfo(name.replace("__", "."), "float32", shape) for name, shape in shapes.items())


CACHED, GROWN = (None, 2, None, 8), (None, 2, None, 8)
