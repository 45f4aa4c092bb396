"""Trees as scikit-learn's converter and others write them, in the operators of `ai.onnx.ml`."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FEATURES, DEPTH, TREES = 6, 3, 5
INNER, LEAVES = 2**DEPTH - 1, 2**DEPTH
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def _model(
    nodes: list[onnx.NodeProto], outputs: dict[str, tuple[int, list[int | str]]], ml: int
) -> onnx.ModelProto:
    ports = helper.make_tensor_value_info("features", FLOAT, ["batch", FEATURES])
    results = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()]
    graph = helper.make_graph(nodes, "trees", [ports], results)
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8 if ml < 5 else 10, producer_name="skl2onnx")


def _nodes(random: np.random.Generator) -> dict[str, list[object]]:
    """Full trees of equal depth, their nodes counted by levels."""
    every = INNER + LEAVES
    inner = [place < INNER for place in range(every)] * TREES
    return {
        "nodes_treeids": [tree for tree in range(TREES) for _ in range(every)],
        "nodes_nodeids": list(range(every)) * TREES,
        "nodes_featureids": random.integers(0, FEATURES, len(inner)).tolist(),
        "nodes_values": [
            float(v) if is_inner else 0.0
            for v, is_inner in zip(random.standard_normal(len(inner)).astype(np.float32), inner, strict=True)
        ],
        "nodes_modes": ["BRANCH_LEQ" if one else "LEAF" for one in inner],
        "nodes_truenodeids": [2 * k + 1 if k < INNER else 0 for k in range(every)] * TREES,
        "nodes_falsenodeids": [2 * k + 2 if k < INNER else 0 for k in range(every)] * TREES,
    }


def _leaves(random: np.random.Generator, prefix: str, targets: int) -> dict[str, list[object]]:
    """What each leaf says: one weight, for a class or target that takes turns."""
    count = TREES * LEAVES
    return {
        f"{prefix}_treeids": [tree for tree in range(TREES) for _ in range(LEAVES)],
        f"{prefix}_nodeids": list(range(INNER, INNER + LEAVES)) * TREES,
        f"{prefix}_ids": [k % targets for k in range(count)],
        f"{prefix}_weights": random.random(count).astype(np.float32).tolist(),
    }


def tree_classifier() -> onnx.ModelProto:
    """Three classes; the labels are cast, and a Scaler stands before the trees."""
    random = np.random.default_rng(40)
    scaler = helper.make_node(
        "Scaler",
        ["features"],
        ["scaled"],
        "Scaler",
        domain="ai.onnx.ml",
        offset=[0.1] * FEATURES,
        scale=[2.0] * FEATURES,
    )
    trees = helper.make_node(
        "TreeEnsembleClassifier",
        ["scaled"],
        ["label", "probabilities"],
        "Trees",
        domain="ai.onnx.ml",
        classlabels_int64s=[0, 1, 2],
        post_transform="NONE",
        **_nodes(random),
        **_leaves(random, "class", 3),
    )
    cast = helper.make_node("Cast", ["label"], ["output_label"], "Cast", to=INT64)
    outputs = {"output_label": (INT64, ["batch"]), "probabilities": (FLOAT, ["batch", 3])}
    return _model([scaler, trees, cast], outputs, ml=3)


def tree_regressor() -> onnx.ModelProto:
    """A sum over all trees, with a base value."""
    random = np.random.default_rng(41)
    trees = helper.make_node(
        "TreeEnsembleRegressor",
        ["features"],
        ["variable"],
        "Trees",
        domain="ai.onnx.ml",
        n_targets=1,
        base_values=[0.5],
        post_transform="NONE",
        **_nodes(random),
        **_leaves(random, "target", 1),
    )
    return _model([trees], {"variable": (FLOAT, ["batch", 1])}, ml=3)


def tree_ensemble() -> onnx.ModelProto:
    """The same kind of trees in TreeEnsemble of `ai.onnx.ml` 5, which took the place of both."""
    random = np.random.default_rng(42)
    roots = [tree * INNER for tree in range(TREES)]
    first_leaf = INNER // 2
    branches = {"true": 1, "false": 2}
    links: dict[str, list[int]] = {}
    for side, step in branches.items():
        targets, leafs = [], []
        for tree in range(TREES):
            for k in range(INNER):
                leaf = k >= first_leaf
                child = 2 * k + step
                targets.append(tree * LEAVES + child - INNER if leaf else tree * INNER + child)
                leafs.append(int(leaf))
        links |= {f"nodes_{side}nodeids": targets, f"nodes_{side}leafs": leafs}
    count = TREES * INNER
    trees = helper.make_node(
        "TreeEnsemble",
        ["features"],
        ["variable"],
        "Trees",
        domain="ai.onnx.ml",
        n_targets=2,
        tree_roots=roots,
        nodes_featureids=random.integers(0, FEATURES, count).tolist(),
        nodes_splits=numpy_helper.from_array(random.standard_normal(count).astype(np.float32)),
        nodes_modes=numpy_helper.from_array(np.zeros(count, np.uint8)),
        leaf_targetids=[k % 2 for k in range(TREES * LEAVES)],
        leaf_weights=numpy_helper.from_array(random.random(TREES * LEAVES).astype(np.float32)),
        aggregate_function=1,
        post_transform=0,
        **links,
    )
    return _model([trees], {"variable": (FLOAT, ["batch", 2])}, ml=5)
