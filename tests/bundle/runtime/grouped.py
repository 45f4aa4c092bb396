"""A small random decoder with grouped attention, as the model builder of ONNX Runtime GenAI writes one."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, LAYERS, HEADS, KV_HEADS, WIDTH = 61, 2, 4, 2, 16
HIDDEN = HEADS * WIDTH
PAIRS = {
    f"past_key_values.{layer}.{part}": f"present.{layer}.{part}"
    for layer in range(LAYERS)
    for part in ("key", "value")
}


def write_grouped(path, *, reads_past=False, seed=0):
    """Writes the decoder; with `reads_past`, a node beside the attention reads the length of a state."""
    random = np.random.default_rng(seed)
    kv = KV_HEADS * WIDTH
    weights = {
        "embedding": random.standard_normal((VOCABULARY, HIDDEN)),
        "head": random.standard_normal((HIDDEN, VOCABULARY)),
    }
    angles = np.arange(512)[:, None] * 100.0 ** -np.linspace(0, 1, WIDTH // 2, endpoint=False)
    weights |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    nodes = [
        helper.make_node("Gather", ["embedding", "input_ids"], ["x0"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.INT32),
        helper.make_node("ReduceSum", ["mask", "last"], ["counts"], keepdims=0),
        helper.make_node("Sub", ["counts", "one"], ["seqlens"]),
        helper.make_node("Shape", ["attention_mask"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "at"], ["length"]),
        helper.make_node("Cast", ["length"], ["total"], to=TensorProto.INT32),
    ]
    for layer in range(LAYERS):
        weights[f"qkv{layer}"] = random.standard_normal((HIDDEN, HIDDEN + 2 * kv)) / 4
        weights[f"out{layer}"] = random.standard_normal((HIDDEN, HIDDEN)) / 4
        state = [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
        made = [f"attended{layer}", f"present.{layer}.key", f"present.{layer}.value"]
        nodes += [
            helper.make_node("MatMul", [f"x{layer}", f"qkv{layer}"], [f"packed{layer}"]),
            helper.make_node(
                "GroupQueryAttention", [f"packed{layer}", "", "", *state, "seqlens", "total", "cos", "sin"], made,
                domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1,
            ),
            helper.make_node("MatMul", [f"attended{layer}", f"out{layer}"], [f"added{layer}"]),
            helper.make_node("Add", [f"x{layer}", f"added{layer}"], [f"x{layer + 1}"]),
        ]  # fmt: skip
    nodes.append(helper.make_node("MatMul", [f"x{LAYERS}", "head"], ["logits"]))
    outputs = [("logits", ["batch", "sequence", VOCABULARY])]
    outputs += [(name, ["batch", KV_HEADS, "total", WIDTH]) for name in PAIRS.values()]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs]
    if reads_past:
        nodes.append(helper.make_node("Shape", ["past_key_values.0.key"], ["past_shape"]))
        ports.append(helper.make_tensor_value_info("past_shape", TensorProto.INT64, [4]))
    past = ["batch", KV_HEADS, "past", WIDTH]
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, past) for name in PAIRS),
    ]
    held = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    held += [numpy_helper.from_array(np.array([1]), "last"), numpy_helper.from_array(np.array(1), "at")]
    held.append(numpy_helper.from_array(np.array(1, np.int32), "one"))
    graph = helper.make_graph(nodes, "grouped", inputs, ports, held)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path
