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
