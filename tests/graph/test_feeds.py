import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.graph.feeds import generate_feeds

SHAPES = (
    (("N", 3, 224, 224), "float32", (1, 3, 224, 224)),
    (("batch", "sequence"), "int64", (1, 16)),
    ((None, None), "float32", (1, 512)),
    ((None, None, "height", "width"), "float32", (1, 3, 64, 64)),
    ((), "int64", ()),
    ((2, "batch", 128), "float32", (2, 1, 128)),
)


@pytest.mark.parametrize(("shape", "dtype", "wanted"), SHAPES)
def test_open_dimensions_get_sensible_sizes(shape, dtype, wanted):
    (sample,) = generate_feeds((TensorInfo("x", dtype, shape),), None, 1, seed=0)
    assert sample["x"].shape == wanted
    assert sample["x"].dtype == dtype


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16", "int8", "uint8", "bool", "int32"])
def test_every_type_is_met(dtype):
    (sample,) = generate_feeds((TensorInfo("x", dtype, (4,)),), None, 1, seed=0)
    assert sample["x"].dtype.name == dtype


def test_texts_are_texts():
    (sample,) = generate_feeds((TensorInfo("x", "str", (2,)),), None, 1, seed=0)
    assert all(isinstance(text, str) for text in sample["x"])


def test_the_same_seed_gives_the_same_samples():
    inputs = (TensorInfo("x", "float32", (5,)),)
    first, again, other = (generate_feeds(inputs, None, 3, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0]["x"], other[0]["x"])
    assert not np.array_equal(first[0]["x"], first[1]["x"])


def test_places_in_a_table_stay_inside_it(make_model):
    text = """g (int32[1,8] ids) => (float[1,8,4] y) {
        long = Cast <to = 7> (ids)  y = Gather(table, long) }"""
    model = make_model(text, table=np.zeros((5, 4), np.float32))
    feeds = generate_feeds((TensorInfo("ids", "int32", (1, 8)),), model.ir, 20, seed=0)
    values = {int(v) for sample in feeds for v in sample["ids"].ravel()}
    assert values == set(range(5))


def test_trip_counts_of_loops_are_two_and_five(make_model):
    text = """g (int64 n, bool go, float[2] x) => (float[2] y) {
        y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
            d = Identity(c)  w = Neg(v) }> }"""
    inputs = (TensorInfo("n", "int64", ()), TensorInfo("go", "bool", ()), TensorInfo("x", "float32", (2,)))
    feeds = generate_feeds(inputs, make_model(text).ir, 20, seed=0)
    assert {int(sample["n"]) for sample in feeds} == {2, 5}


def test_a_number_that_the_graph_compares_is_the_one_it_knows(make_model):
    text = """g (int64 rate, float[2] x) => (float[2] y) {
        wanted = Constant <value_int = 16000> ()  c = Equal(rate, wanted)
        y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    (sample,) = generate_feeds((TensorInfo("rate", "int64", ()),), make_model(text).ir, 1, seed=0)
    assert sample["rate"] == 16000


def test_masks_are_ones_with_zeros_at_the_end():
    feeds = generate_feeds((TensorInfo("attention_mask", "int64", (2, 16)),), None, 20, seed=0)
    masks = np.concatenate([sample["attention_mask"] for sample in feeds])
    assert set(masks.ravel()) == {0, 1}
    assert masks.mean() > 0.75
    assert (np.diff(masks, axis=1) <= 0).all()


def test_a_length_that_several_inputs_name_is_the_same_in_all():
    inputs = (
        TensorInfo("ids", "int64", ("batch", "tokens")),
        TensorInfo("frames", "float32", ("tokens", "batch", 8)),
        TensorInfo("odd", "float32", ("batch", "x7", 4)),
        TensorInfo("even", "float32", ("x7", 4)),
        TensorInfo("attention_mask", "int64", ("batch", "tokens + 1")),
    )
    (sample,) = generate_feeds(inputs, None, 1, seed=0)
    shapes = {name: array.shape for name, array in sample.items()}
    assert (shapes["ids"], shapes["frames"], shapes["attention_mask"]) == ((1, 16), (16, 1, 8), (1, 17))
    assert shapes["odd"][1] == shapes["even"][0]


def test_the_smallest_table_decides(make_model):
    text = """g (int64[1,8] ids) => (float[1,8,4] y, float[1,8,3] z) {
        y = Gather(words, ids)  z = Gather(kinds, ids) }"""
    model = make_model(text, words=np.zeros((50, 4), np.float32), kinds=np.zeros((2, 3), np.float32))
    feeds = generate_feeds((TensorInfo("ids", "int64", (1, 8)),), model.ir, 5, seed=0)
    assert {int(v) for sample in feeds for v in sample["ids"].ravel()} == {0, 1}


def test_classes_to_spread_out_are_below_their_number(make_model):
    text = """g (int64[4] labels) => (float[4,3] y) {
        depth = Constant <value_int = 3> ()  values = Constant <value_floats = [0.0, 1.0]> ()
        y = OneHot(labels, depth, values) }"""
    feeds = generate_feeds((TensorInfo("labels", "int64", (4,)),), make_model(text).ir, 10, seed=0)
    assert {int(v) for sample in feeds for v in sample["labels"]} == {0, 1, 2}


def test_lengths_are_as_long_as_what_they_measure():
    inputs = (TensorInfo("frames", "float32", (1, 80, 9)), TensorInfo("frames_len", "int64", (1,)))
    (sample,) = generate_feeds(inputs, None, 1, seed=0)
    assert sample["frames_len"] == [80]


PICTURES = (
    ("y = Div(x, c)", 255.0, 255.0),
    ("y = Mul(c, x)", 1 / 255, 255.0),
    ("y = Sub(x, c)", 127.0, 255.0),
    ("y = Sub(x, c)", 0.485, 1.0),
    ("y = Div(x, c)", 0.229, 1.0),
)


@pytest.mark.parametrize(("body", "number", "brightest"), PICTURES)
def test_pictures_are_as_bright_as_the_graph_expects(make_model, body, number, brightest):
    model = make_model(f"g (float[1,3,8,8] x) => (float[1,3,8,8] y) {{ {body} }}", c=np.float32(number))
    (sample,) = generate_feeds((TensorInfo("x", "float32", (1, 3, 8, 8)),), model.ir, 1, seed=0)
    assert sample["x"].min() >= 0
    assert brightest * 0.9 < sample["x"].max() <= brightest


def test_other_numbers_are_noise(make_model):
    model = make_model("g (float[1,16] x) => (float[1,16] y) { y = Div(x, c) }", c=np.float32(255))
    (sample,) = generate_feeds((TensorInfo("x", "float32", (1, 16)),), model.ir, 1, seed=0)
    assert sample["x"].min() < 0


def test_a_mask_of_floats_is_one_of_zeros_and_ones():
    (sample,) = generate_feeds((TensorInfo("mask", "float32", (1, 16)),), None, 1, seed=0)
    assert set(sample["mask"].ravel()) <= {0.0, 1.0}
