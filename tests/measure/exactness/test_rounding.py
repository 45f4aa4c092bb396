import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.measure.exactness import rounding
from edgeopt.measure.exactness.rounding import difference, excess, moved_feeds, moved_model

WANTED = np.linspace(-1, 1, 101, dtype=np.float32)


def said(got, *others, wanted=WANTED):
    return difference({"y": wanted}, {"y": got}, [{"y": other} for other in others])


def test_equal_and_nearly_equal_answers_do_not_differ():
    assert said(WANTED) is None
    assert said(WANTED + np.float32(1e-6)) is None


def test_one_wrong_value_among_many_is_named():
    got = WANTED.copy()
    got[70] += 0.01
    assert "beyond rounding in 1 of 101 values" in said(got)


def test_what_rounding_does_to_the_source_itself_excuses_as_much_and_no_more():
    noise = np.random.default_rng(0).normal(size=(3, 101)).astype(np.float32) * 1e-3
    assert said(WANTED + noise[0], WANTED + noise[1], WANTED + noise[2]) is None
    got = WANTED + noise[0]
    got[5] += 0.5
    assert "in 1 of 101 values" in said(got, WANTED + noise[1], WANTED + noise[2])


def test_a_small_output_is_judged_by_its_own_size():
    quiet = WANTED * np.float32(1e-12)
    assert said(quiet * 2, wanted=quiet) is not None
    assert said(np.zeros_like(quiet), wanted=quiet) is not None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_stand_where_they_stand_in_the_source(value):
    wanted = WANTED.copy()
    wanted[3] = value
    assert said(wanted.copy(), wanted=wanted) is None
    assert said(WANTED, wanted=wanted) is not None
    assert said(wanted, wanted=WANTED) is not None
    assert said(-wanted if np.isinf(value) else WANTED, wanted=wanted) is not None
    # Rounding excuses none of it.
    assert said(wanted, wanted, wanted=WANTED) is not None


def test_integers_differ_unless_rounding_moves_them_too():
    wanted, got = np.array([1, 2, 3]), np.array([1, 2, 4])
    assert "in 1 of 3 values" in said(got, wanted=wanted)
    assert said(got, np.array([1, 2, 9]), wanted=wanted) is None
    assert said(got, np.array([9, 2, 3]), wanted=wanted) is not None


def test_another_shape_differs_unless_rounding_changes_it_too():
    wanted, got = np.ones(3, np.float32), np.ones(2, np.float32)
    assert "shape [2] instead of [3]" in said(got, np.ones(3, np.float32), wanted=wanted)
    assert said(got, np.ones(4, np.float32), wanted=wanted) is None


def test_texts_and_missing_outputs():
    words = np.array(["a", "b"], dtype=object)
    assert said(words, wanted=words) is None
    assert said(np.array(["a", "c"], dtype=object), wanted=words) is not None
    assert difference({"y": WANTED}, {}) == "the output 'y' is missing"


def test_the_elements_of_sequences_are_compared():
    assert difference({"s": [WANTED]}, {"s": [WANTED]}) is None
    assert difference({"s": [WANTED]}, {"s": [WANTED, WANTED]}) is not None
    assert difference({"s": [WANTED]}, {"s": [-WANTED]}) is not None


def test_values_whose_squares_overflow_are_judged():
    large = WANTED * np.float32(3e38)
    assert said(large, wanted=large) is None
    assert said(large * np.float32(0.9), wanted=large) is not None


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_inputs_are_moved_by_about_a_unit_in_the_last_place(dtype):
    feeds = {"x": np.linspace(1, 2, 50, dtype=dtype), "ids": np.arange(4), "on": np.array([True])}
    moved = moved_feeds(feeds, 0)
    apart = np.abs(moved["x"] - feeds["x"]) / np.finfo(dtype).eps
    assert 0 < apart.max() <= 4
    assert moved["x"].dtype == dtype
    assert np.array_equal(moved["ids"], feeds["ids"])
    assert np.array_equal(moved["on"], feeds["on"])
    largest = {"x": np.full(9, np.finfo(dtype).max)}
    assert np.isfinite(moved_feeds(largest, 0)["x"]).all()


def test_weights_that_are_computed_with_are_moved_and_others_are_not(make_model):
    model_ir = make_model(
        """g (float[1,2,4,4] x) => (float y) {
            k = Mul(x, w)  e = Constant<value = float {1e-10}>()  a = Add(k, e)
            roi = Constant<value = float[0] {}>()
            r = Resize(a, roi, scales)  p = Pow(r, two)  y = ReduceSum(p) }""",
        w=np.ones((1, 2, 1, 1), np.float32),
        scales=np.array([1, 1, 2, 2], np.float32),
        two=np.float32(2),
    ).ir
    moved = moved_model(model_ir, 1)
    held = {name: value.const_value.numpy() for name, value in moved.graph.initializers.items()}
    assert (held["w"] != 1).all()
    assert np.allclose(held["w"], 1, rtol=1e-6, atol=0)
    assert held["scales"].tolist() == [1, 1, 2, 2]
    assert held["two"] == 2
    epsilon = next(float(v) for v in held.values() if v.size == 1 and 0 < v < 1e-9)
    assert epsilon != np.float32(1e-10)
    assert epsilon == pytest.approx(1e-10, rel=1e-6)
    assert isinstance(moved, ir.Model)
    assert (model_ir.graph.initializers["w"].const_value.numpy() == 1).all()


def test_how_far_answers_are_apart():
    assert excess({"y": WANTED}, {"y": WANTED}) == 0
    assert excess({"y": WANTED}, {"y": WANTED * np.float32(1.01)}) == pytest.approx(100, rel=0.01)
    broken = WANTED.copy()
    broken[0] = np.nan
    assert excess({"y": WANTED}, {"y": broken}) == np.inf
    assert excess({"n": np.array([1])}, {"n": np.array([2])}) == np.inf
    assert excess({"y": WANTED}, {"y": WANTED[:3]}) == np.inf
    assert excess({"y": broken}, {"y": broken}) == 0


NUMBERS = st.one_of(
    st.floats(width=32),
    st.sampled_from([0.0, -0.0, 1.0, 1e-40, 3e38, np.inf, -np.inf, np.nan]),
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    wanted=st.lists(NUMBERS, min_size=1, max_size=6),
    moves=st.lists(st.sampled_from([0.0, 1e-7, 5e-5, 2e-4, 1.0]), min_size=6, max_size=6),
    put=st.one_of(st.none(), NUMBERS),
)
def test_what_is_alike_at_once_is_alike_on_a_second_look(wanted, moves, put):
    wanted = np.float32(wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        got = wanted * (1 + np.float32(moves[: wanted.size]))
    if put is not None:
        got[-1] = put
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rounding, "_alike_at_once", lambda *_: False)
        slowly = said(got, wanted=wanted)
    if rounding._alike_at_once(wanted, got):
        assert slowly is None
    assert said(got, wanted=wanted) == slowly
