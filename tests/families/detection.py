"""Nets that find things in a picture: boxes, scores, and what picks among them."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.families.exporter import INT64, Exporter
from tests.families.layers import conv, conv_norm, max_pool, relu6, silu

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
PICTURE = [1, 3, 64, 64]


def yolo() -> onnx.ModelProto:
    """Focus slices, SiLU, spatial pyramid pooling, upsampling, and boxes decoded by arithmetic on shapes."""
    g = Exporter(12, seed=20)
    x = "images"
    halves = [
        g.op("Slice", x, [top, left], [1 << 62, 1 << 62], [2, 3], [2, 2]) for left in (0, 1) for top in (0, 1)
    ]
    x = silu(g, conv_norm(g, g.op("Concat", *halves, axis=1), (12, 8)))
    fine = silu(g, conv_norm(g, x, (8, 16), 3, stride=2))
    half = silu(g, conv_norm(g, fine, (16, 8), 1))
    pooled = [half, *(max_pool(g, half, side, 1, side // 2) for side in (5, 9, 13))]
    coarse = silu(g, conv_norm(g, g.op("Concat", *pooled, axis=1), (32, 16), 3, stride=2))
    up = g.op(
        "Resize",
        coarse,
        np.zeros(0),
        np.array([1, 1, 2, 2], np.float32),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    fine = silu(g, conv_norm(g, g.op("Concat", up, fine, axis=1), (32, 16)))
    levels = [_yolo_level(g, one, size, stride) for one, size, stride in ((fine, 16, 4), (coarse, 8, 8))]
    boxes = g.op("Concat", *levels, axis=1)
    return g.model({"images": PICTURE}, {g.named(boxes, "output"): [1, 320 * 3, 9]})


def _yolo_level(g: Exporter, x: str, size: int, stride: int) -> str:
    """Three anchors a point: centre from the grid, size from the anchor, four classes."""
    x = conv(g, x, (16, 27), 1)
    batch, rows, columns = (g.size(x, axis) for axis in (0, 2, 3))
    x = g.op("Transpose", g.reshape(x, batch, 3, 9, rows, columns), perm=[0, 1, 3, 4, 2])
    centre, extent, rest = g.split(g.op("Sigmoid", x), [2, 2, 5], axis=4)
    grid = np.stack(np.meshgrid(np.arange(size), np.arange(size)), -1)[None, None].astype(np.float32)
    centre = g.op("Mul", g.op("Add", g.op("Sub", g.op("Mul", centre, 2.0), 0.5), grid), float(stride))
    anchors = np.array([[10, 13], [16, 30], [33, 23]], np.float32).reshape(1, 3, 1, 1, 2)
    extent = g.op("Mul", g.op("Pow", g.op("Mul", extent, 2.0), 2.0), g.array(anchors))
    return g.reshape(g.op("Concat", centre, extent, rest, axis=4), batch, -1, 9)


def ssd() -> onnx.ModelProto:
    g = Exporter(11, seed=21)
    x = relu6(g, conv_norm(g, "input", (3, 8), 3, stride=4))
    levels, classes = [], 4
    for size_in, size_out in ((8, 12), (12, 16)):
        x = relu6(g, conv_norm(g, x, (size_in, size_out), 3, stride=2))
        kept = [g.op("Transpose", conv(g, x, (size_out, 3 * one)), perm=[0, 2, 3, 1]) for one in (classes, 4)]
        levels.append([g.reshape(y, 1, -1, one) for y, one in zip(kept, (classes, 4), strict=True)])
    scores, places = (g.op("Concat", *parts, axis=1) for parts in zip(*levels, strict=True))
    count = 3 * (8 * 8 + 4 * 4)
    anchors = g.random.uniform(0.2, 0.8, (count, 4))
    centre, extent = g.split(places, [2, 2], axis=2)
    centre = g.op("Add", g.op("Mul", g.op("Mul", centre, 0.1), g.array(anchors[:, 2:])), g.array(anchors[:, :2]))
    half = g.op("Div", g.op("Mul", g.op("Exp", g.op("Mul", extent, 0.2)), g.array(anchors[:, 2:])), 2.0)
    boxes = g.op("Concat", g.op("Sub", centre, half), g.op("Add", centre, half), axis=2)
    scores = g.op("Softmax", scores, axis=2)
    picked = g.op(
        "NonMaxSuppression",
        boxes,
        g.op("Transpose", scores, perm=[0, 2, 1]),
        np.array([5], np.int64),
        np.array([0.5], np.float32),
        np.array([0.4], np.float32),
    )
    which = g.op("Gather", picked, np.array(2, np.int64), axis=1)
    found = g.op("Gather", g.op("Squeeze", boxes, axes=[0]), which, axis=0)
    kind = g.op("Gather", picked, np.array(1, np.int64), axis=1)
    best = g.op(
        "Gather", g.op("ReduceMax", g.op("Squeeze", scores, axes=[0]), axes=[1], keepdims=0), which, axis=0
    )
    return g.model(
        {"input": PICTURE},
        {
            g.named(found, "boxes"): ["found", 4],
            g.named(best, "scores"): ["found"],
            g.named(kind, "labels"): (INT64, ["found"]),
        },
    )


def faster_rcnn() -> onnx.ModelProto:
    """Proposals by TopK, RoiAlign, a Loop over the classes that keeps its finds, an If for when there are none."""
    g = Exporter(12, seed=22)
    x = g.op("Relu", conv(g, g.op("Relu", conv(g, "image", (3, 8), 3, stride=4)), (8, 16), 3, stride=2))
    proposals = _proposals(g, x)
    batch = g.op(
        "ConstantOfShape",
        g.op("Slice", g.op("Shape", proposals), [0], [1]),
        value=helper.make_tensor("zero", INT64, [1], [0]),
    )
    crops = g.op(
        "RoiAlign",
        x,
        proposals,
        batch,
        output_height=3,
        output_width=3,
        sampling_ratio=2,
        spatial_scale=0.125,
        mode="avg",
    )
    hidden = g.op("Relu", g.op("Gemm", g.op("Flatten", crops, axis=1), g.weight(24, 144), g.weight(24), transB=1))
    scores = g.op("Softmax", g.op("Gemm", hidden, g.weight(4, 24, scale=1.0), g.weight(4), transB=1), axis=1)
    shifts = g.reshape(g.op("Gemm", hidden, g.weight(16, 24, scale=0.02), g.weight(16), transB=1), -1, 4, 4)
    boxes = g.op("Transpose", g.op("Add", g.op("Unsqueeze", proposals, axes=[1]), shifts), perm=[1, 0, 2])
    boxes = g.op("Clip", boxes, 0.0, 63.0)
    found = _by_class(g, boxes, g.op("Transpose", scores, perm=[1, 0]))
    some = g.op("Greater", g.size(found, 0), np.array(0, np.int64))
    found = _unless_empty(g, some, found)
    return g.model({"image": PICTURE}, {g.named(found, "detections"): ["found", 6]})


def _proposals(g: Exporter, x: str) -> str:
    """The twelve best of three boxes a point, clipped to the picture, those without extent left out."""
    shared = g.op("Relu", conv(g, x, (16, 16)))
    score = g.op("Transpose", conv(g, shared, (16, 3), 1), perm=[0, 2, 3, 1])
    score = g.op("Sigmoid", g.reshape(score, 1, -1))
    delta = g.reshape(conv(g, shared, (16, 12), 1), 1, 3, 4, g.size(x, 2), g.size(x, 3))
    delta = g.reshape(g.op("Transpose", delta, perm=[0, 3, 4, 1, 2]), -1, 4)
    many = g.minimum(g.reshape(g.size(score, 1), 1, 1), 12)
    _, places = g.op("TopK", score, g.reshape(many, 1), outputs=2, axis=1, largest=1, sorted=1)
    places = g.op("Squeeze", places, axes=[0])
    rows, columns = np.meshgrid(np.arange(8) * 8 + 4.0, np.arange(8) * 8 + 4.0, indexing="ij")
    sizes = np.array([8.0, 16.0, 24.0])
    anchors = np.stack([np.repeat(v.ravel(), 3) for v in (columns, rows)] + [np.tile(sizes, 64)] * 2, 1)
    delta, anchor = g.op("Gather", delta, places, axis=0), g.op("Gather", g.array(anchors), places, axis=0)
    middle, extent = g.split(anchor, [2, 2], axis=1)
    move, grow = g.split(delta, [2, 2], axis=1)
    middle = g.op("Add", g.op("Mul", move, extent), middle)
    half = g.op("Mul", g.op("Mul", g.op("Exp", g.op("Min", grow, 4.0)), extent), 0.5)
    boxes = g.op("Concat", g.op("Sub", middle, half), g.op("Add", middle, half), axis=1)
    boxes = g.op("Clip", boxes, 0.0, 63.0)
    low, high = g.split(boxes, [2, 2], axis=1)
    wide = g.op("ReduceMin", g.op("Sub", high, low), axes=[1], keepdims=0)
    kept = g.op("NonZero", g.op("Not", g.op("Less", wide, 1e-2)))
    return str(g.op("Gather", boxes, g.op("Squeeze", g.op("Transpose", kept, perm=[1, 0]), axes=[1]), axis=0))


def _by_class(g: Exporter, boxes: str, scores: str) -> str:
    """A Loop over all classes but the first, with the rows found so far as what it hands on."""
    one, two = (g.array(np.array(value, np.int64)) for value in ([1], [2]))
    maximum, overlap, minimum = (g.array(np.array(value)) for value in (np.array([3], np.int64), [0.5], [0.2]))
    node = helper.make_node
    body = [
        node("Add", ["turn", one], ["class"], "body/Add"),
        node("Gather", [boxes, "class"], ["boxes_of"], "body/Gather", axis=0),
        node("Gather", [scores, "class"], ["scores_of"], "body/Gather_1", axis=0),
        node("Unsqueeze", ["scores_of"], ["scores_in"], "body/Unsqueeze", axes=[0]),
        node("NonMaxSuppression", ["boxes_of", "scores_in", maximum, overlap, minimum], ["picked"], "body/NMS"),
        node("Gather", ["picked", two], ["column"], "body/Gather_2", axis=1),
        node("Squeeze", ["column"], ["which"], "body/Squeeze", axes=[1]),
        node("Squeeze", ["boxes_of"], ["boxes_flat"], "body/Squeeze_1", axes=[0]),
        node("Gather", ["boxes_flat", "which"], ["boxes_found"], "body/Gather_3", axis=0),
        node("Transpose", ["scores_of"], ["scores_flat"], "body/Transpose", perm=[1, 0]),
        node("Gather", ["scores_flat", "which"], ["scores_found"], "body/Gather_4", axis=0),
        node("Cast", ["class"], ["class_float"], "body/Cast", to=1),
        node("Mul", ["scores_found", "scores_found"], ["squares"], "body/Mul"),
        node("Sub", ["squares", "squares"], ["zeros"], "body/Sub"),
        node("Add", ["zeros", "class_float"], ["labels"], "body/Add_1"),
        node("Concat", ["boxes_found", "scores_found", "labels"], ["rows"], "body/Concat", axis=1),
        node("Concat", ["rows_in", "rows"], ["rows_out"], "body/Concat_1", axis=0),
        node("Identity", ["go_on"], ["go_on_out"], "body/Identity"),
    ]
    ports = [("turn", INT64, []), ("go_on", BOOL, []), ("rows_in", FLOAT, ["before", 6])]
    results = [("go_on_out", BOOL, []), ("rows_out", FLOAT, ["after", 6])]
    graph = helper.make_graph(
        body, "loop_body", *([helper.make_tensor_value_info(*one) for one in group] for group in (ports, results))
    )
    empty = g.op("ConstantOfShape", [0, 6], value=helper.make_tensor("zero", FLOAT, [1], [0.0]))
    return str(g.op("Loop", np.array(3, np.int64), np.array(True), empty, body=graph))


def _unless_empty(g: Exporter, some: str, rows: str) -> str:
    """The rows sorted by score where there are some, else what there is."""
    node = helper.make_node
    column, count = g.array(np.array(4, np.int64)), g.array(np.array([1], np.int64))
    then = [
        node("Gather", [rows, column], ["scores_then"], "then/Gather", axis=1),
        node("Shape", ["scores_then"], ["count_then"], "then/Shape"),
        node("Mul", ["count_then", count], ["all_then"], "then/Mul"),
        node("TopK", ["scores_then", "all_then"], ["sorted_then", "order_then"], "then/TopK", axis=0),
        node("Gather", [rows, "order_then"], ["rows_then"], "then/Gather_1", axis=0),
    ]
    branches = [
        helper.make_graph(nodes, title, [], [helper.make_tensor_value_info(out, FLOAT, ["found", 6])])
        for nodes, title, out in (
            (then, "then", "rows_then"),
            ([node("Identity", [rows], ["rows_else"], "else/Identity")], "else", "rows_else"),
        )
    ]
    return str(g.op("If", some, then_branch=branches[0], else_branch=branches[1]))
