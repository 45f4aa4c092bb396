import re

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.algebra.rewrite_patterns import PASS, rewrites
from edgeopt.graph.passes.base import PassContext

X = np.float32(np.random.default_rng(5).standard_normal((1, 4, 6, 6)))
INTS = {
    "i0": [0], "i1": [1], "i2": [2], "i3": [3], "i6": [6], "flat": [1, -1], "last": [-1], "ends": [-1, 0],
    "back": [1, 4, 6, 6], "mixed": [4, 6, 6],
    "pads": [0, 0, 1, 1, 0, 0, 1, 1],
}  # fmt: skip
FLOATS = {"one": 1.0, "zero": 0.0, "three": 3.0, "six": 6.0}
CONV = np.float32(np.random.default_rng(6).standard_normal((2, 4, 3, 3)))

SIMPLER = (
    # (nodes from x to y, the operators left, what the ledger says)
    ("a = Relu(x)  y = Clip(a, zero, six)", ["Clip"], "merged activations and clips"),
    ("a = Clip(x, zero, six)  y = Clip(a, zero, three)", ["Clip"], "merged activations and clips"),
    ("a = Min(x, six)  y = Max(a, zero)", ["Clip"], "merged minima and maxima"),
    ("a = Unsqueeze(x, i0)  y = Unsqueeze(a, i2)", ["Unsqueeze"], "merged unsqueezes"),
    ("a = Unsqueeze(x, last)  y = Unsqueeze(a, i0)", ["Unsqueeze"], "merged unsqueezes"),
    ("a = Unsqueeze(x, i1)  y = Unsqueeze(a, ends)", ["Unsqueeze"], "merged unsqueezes"),
    ("a = Slice(x, i0, i6, i2, i2)  y = Slice(a, i1, i6, i3, i2)", ["Slice"], "merged slices"),
    ("a = Flatten(x)  y = Reshape(a, back)", ["Reshape"], "dropped the Flatten before a Reshape"),
    ("a = Reshape(x, flat)  y = Reshape(a, mixed)", ["Reshape"], "merged reshapes"),
    (
        "a = Flatten <axis = 3> (x)  b = Softmax <axis = 1> (a)  y = Reshape(b, back)",
        ["Softmax"],
        "dropped the Flatten and the Reshape around a Softmax",
    ),
    ("a = Cast <to = 11> (x)  y = Cast <to = 10> (a)", ["Cast"], "merged casts"),
    ("a = Pad(x, pads)  y = Conv(a, w)", ["Conv"], "let the convolution pad"),
)


@pytest.fixture
def model_of(make_model, results):
    """A model of these nodes between x and its outputs, which are declared with the shapes that they have."""

    def make(nodes, outputs="float y", **extra):
        every = {k: np.int64(v) for k, v in INTS.items()} | {k: np.float32(v) for k, v in FLOATS.items()}
        words = re.findall(r"\w+", nodes)
        weights = {k: v for k, v in (every | {"w": CONV} | extra).items() if k in words}
        model = make_model(f"g (float[1,4,6,6] x) => ({outputs}) {{ {nodes} }}", **weights)
        for value, array in zip(model.ir.graph.outputs, results(model.ir, x=X), strict=True):
            value.shape = ir.Shape(array.shape)
        return model

    return make


@pytest.mark.parametrize(("nodes", "left", "told"), SIMPLER)
def test_a_pattern_becomes_simpler(model_of, apply_pass, kinds, shaped, nodes, left, told):
    result = apply_pass(PASS, shaped(model_of(nodes)), 1e-5, x=X)
    assert kinds(result.model) == left
    assert told in [change.what for change in result.applied]


def test_two_clips_of_one_value_keep_their_own_limits(model_of, apply_pass, kinds, shaped):
    nodes = "r = Relu(x)  s = Relu(x)  a = Clip(r, zero, six)  b = Clip(s, zero, three)  y = Sub(a, b)"
    result = apply_pass(PASS, shaped(model_of(nodes)), x=X * 10)
    assert kinds(result.model) == ["Clip", "Clip", "Sub"]


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { r = Relu(x)  a = Relu(r) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    result = apply_pass(PASS, make_model(text), x=np.float32([1, -2]), c=np.array(True))
    assert kinds(result.model).count("Relu") == 1


def test_casts_that_round_stay_with_the_reason(make_model, kinds, reasons, shaped):
    text = "g (double[2] x) => (float16[2] y) { a = Cast <to = 1> (x)  y = Cast <to = 10> (a) }"
    result = PASS.apply(shaped(make_model(text)).ir, PassContext())
    assert "DOUBLE through FLOAT to FLOAT16 rounds differently" in reasons(result)
    assert result.refused[0].nodes[0].startswith("Cast")
    assert kinds(result.model) == ["Cast", "Cast"]


def test_says_that_two_slices_cut_the_same_axis(model_of, apply_pass, kinds, shaped, reasons):
    nodes = "a = Slice(x, i0, i6, i2, i2)  y = Slice(a, i1, i6, i2, i1)"
    result = apply_pass(PASS, shaped(model_of(nodes)), x=X)
    assert "both cut the same axis" in reasons(result)
    assert kinds(result.model) == ["Slice", "Slice"]


def test_says_that_padding_the_channels_is_no_convs_work(model_of, apply_pass, kinds, shaped, reasons):
    odd, wide = np.int64([0, 1, 0, 0, 0, 0, 0, 0]), np.ones((2, 5, 3, 3), np.float32)
    model = shaped(model_of("a = Pad(x, odd)  y = Conv(a, w)", odd=odd, w=wide))
    result = apply_pass(PASS, model, x=X)
    assert "must be zero in non-spatial dimensions" in reasons(result)
    assert kinds(result.model) == ["Pad", "Conv"]


def test_a_slice_that_others_read_too_stays(model_of, apply_pass, kinds, shaped, reasons):
    nodes = "a = Slice(x, i0, i6, i2, i2)  y = Slice(a, i1, i6, i3, i2)  z = Neg(a)"
    result = apply_pass(PASS, shaped(model_of(nodes, outputs="float y, float z")), x=X)
    assert "used elsewhere too" in reasons(result)
    assert kinds(result.model) == ["Slice", "Slice", "Neg"]


def test_rules_that_write_newer_attributes_wait_for_the_opset(make_model, kinds):
    text = "g (float[1,4,6,6] x) => (float y) { a = Flatten(x)  y = Reshape(a, back) }"
    model = make_model(text, opset=8, ir_version=4, back=np.int64(INTS["back"]))
    assert kinds(PASS.apply(model.ir, PassContext()).model) == ["Flatten", "Reshape"]


def test_every_rewrite_says_in_words_what_it_did():
    told = [rewrite.what for rewrite in rewrites()]
    assert len(set(told)) == len(told)
    assert all(what.split()[0] in {"dropped", "merged", "filled", "made", "multiplied", "let"} for what in told)


@pytest.mark.parametrize("nodes", [
    "a = Min(x, three)  y = Max(a)", "a = Max(x, three)  y = Min(a)",
    "a = Relu(x)  y = Clip(a, zero)", "a = Clip(x, zero)  y = Relu(a)", "a = Min(x, three)  y = Max(a, zero)",
])  # fmt: skip
def test_merged_limits_let_infinity_pass_where_the_first_ones_do(model_of, shaped, nodes):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, x = shaped(model_of(nodes)), X.copy()
    x.flat[:4] = np.inf, -np.inf, 3.4e38, -3.4e38
    result = PASS.apply(model.ir, PassContext())
    assert result.applied
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    was, now = (
        onnxruntime.InferenceSession(ir.to_proto(one).SerializeToString(), options).run(None, {"x": x})
        for one in (model.ir, result.model)
    )
    np.testing.assert_array_equal(now, was)


def test_the_ledger_names_nodes_in_the_order_of_the_graph(model_of, apply_pass, shaped):
    casts = "".join(f"c{k} = Cast <to = 11> (u)  d{k} = Cast <to = 10> (c{k})  " for k in range(24))
    nodes = f"a = Relu(x)  u = Clip(a, zero, six)  {casts} y = Sum({', '.join(f'd{k}' for k in range(24))})"
    result = apply_pass(PASS, shaped(model_of(nodes, "float16 y")), 1e-5, x=X)
    merged = next(change for change in result.applied if change.what == "merged casts")
    numbers = [int(number) for node in merged.nodes for number in re.findall(r"_(\d+)'", node)]
    assert len(numbers) > 20
    assert numbers == sorted(numbers)
