import ml_dtypes  # noqa: F401 - gives numpy bfloat16
import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.regimes import REGIMES, cases, mixed
from edgeopt.graph.feeds import generate_feeds

SIGNAL = TensorInfo("signal", "float32", (1, 64))


def by_regime(*inputs, model_ir=None, ordinary=None):
    found = {}
    for case in cases(inputs, model_ir, ordinary or generate_feeds(inputs, model_ir, 1, seed=0)[0]):
        found.setdefault(case.regime, case.feeds)
    return found


def test_every_regime_has_a_name_of_its_own():
    names = [regime.name for regime in REGIMES]
    assert len(set(names)) == len(names)


def test_floating_point_values_of_each_regime_are_what_its_name_says():
    found = {name: feeds["signal"].ravel() for name, feeds in by_regime(SIGNAL).items()}
    assert not found["silence"].any()
    assert 1e-7 < np.abs(found["quiet"]).max() < 1e-5
    assert 1e-13 < np.abs(found["very quiet"]).max() < 1e-11
    assert np.abs(found["loud"]).max() > 50
    assert np.ptp(found["constant"]) == 0 != found["constant"][0]
    assert np.count_nonzero(found["impulse"]) == 1
    assert 0 < np.count_nonzero(found["sparse"]) < 20
    assert (np.diff(found["rising"]) >= 0).all()
    assert (np.sign(found["alternating signs"][:-1]) == -np.sign(found["alternating signs"][1:])).all()
    assert (found["negative"] <= 0).all()
    assert {*found["ends of the type"]} == {-np.finfo(np.float32).max, np.finfo(np.float32).max}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_the_ends_are_those_of_the_type_and_the_types_stay(dtype):
    found = by_regime(TensorInfo("x", dtype, (8,)))
    assert {array.dtype.name for feeds in found.values() for array in feeds.values()} == {dtype}
    assert np.isfinite(found["ends of the type"]["x"].astype(np.float64)).all()
    assert np.abs(found["ends of the type"]["x"].astype(np.float64)).min() > 6e4


def test_a_model_is_driven_less_far_where_it_cannot_bear_the_ends():
    reached = [np.abs(c.feeds["signal"]).max() for c in _extremes(SIGNAL)]
    assert reached == sorted(reached, reverse=True)
    assert len(reached) > 1
    assert all(case.finite_only for case in _extremes(SIGNAL))


def _extremes(info):
    (ordinary,) = generate_feeds((info,), None, 1, seed=0)
    return [case for case in cases((info,), None, ordinary) if case.regime == "ends of the type"]


def test_integers_stay_within_the_table_that_they_index(make_model):
    model_ir = make_model(
        "g (int64[1,8] ids) => (float[1,8,4] y) { y = Gather(table, ids) }", table=np.zeros((7, 4), np.float32)
    ).ir
    found = by_regime(TensorInfo("ids", "int64", (1, 8)), model_ir=model_ir)
    values = {int(v) for feeds in found.values() for v in feeds["ids"].ravel()}
    assert values <= set(range(7))
    assert {0, 6} <= {int(v) for v in found["ends of the type"]["ids"].ravel()}
    assert not found["silence"]["ids"].any()


def test_integers_of_which_nothing_is_known_stay_between_the_ordinary_ones():
    ordinary = {"counts": np.array([3, 5, 9], np.int64)}
    found = by_regime(TensorInfo("counts", "int64", (3,)), ordinary=ordinary)
    counted = {"counts of 0", "counts of 1"}
    others = [feeds["counts"] for name, feeds in found.items() if name not in counted]
    assert {int(v) for counts in others for v in counts} <= set(range(3, 10))


def test_masks_are_full_empty_and_have_gaps_and_are_masks_in_no_other_regime():
    inputs = (TensorInfo("ids", "int64", (1, 9)), TensorInfo("attention_mask", "int64", (1, 9)))
    (ordinary,) = generate_feeds(inputs, None, 1, seed=3)
    found = by_regime(*inputs, ordinary=ordinary)
    masks = {name: feeds["attention_mask"].ravel().tolist() for name, feeds in found.items()}
    assert masks["all masked"] == [0] * 9
    assert masks["masked in gaps"] == [1, 0, 1, 1, 0, 1, 1, 0, 1]
    assert masks["all but one masked"] == [1] + [0] * 8
    assert masks["silence"] == ordinary["attention_mask"].ravel().tolist()


def test_open_dimensions_become_one_and_long_and_stay_equal_where_they_share_a_name():
    inputs = (TensorInfo("a", "float32", ("batch", "length", 3)), TensorInfo("b", "int64", ("batch", "length")))
    found = by_regime(*inputs)
    shapes = {name: [feeds[i.name].shape for i in inputs] for name, feeds in found.items()}
    assert shapes["shortest"] == [(1, 1, 3), (1, 1)]
    assert shapes["longest"] == [(1, 32, 3), (1, 32)]
    assert shapes["several rows"] == [(2, 16, 3), (2, 16)]
    assert shapes["silence"] == [(1, 16, 3), (1, 16)]


def test_each_open_dimension_is_empty_alone_and_those_of_one_name_together():
    inputs = (TensorInfo("a", "float32", ("batch", "length", 3)), TensorInfo("b", "int64", ("batch", None)))
    ordinary = {"a": np.ones((2, 4, 3), np.float32), "b": np.ones((2, 5), np.int64)}
    found = [case for case in cases(inputs, None, ordinary) if case.regime == "one size 0"]
    assert [(case.feeds["a"].shape, case.feeds["b"].shape) for case in found] == [
        ((2, 0, 3), (2, 5)),
        ((2, 4, 3), (2, 0)),
    ]  # without rows: that is a regime of its own
    assert all(case.at_edge for case in found)


def test_dimensions_without_a_name_are_empty_alone_and_in_all_inputs():
    inputs = (TensorInfo("a", "float32", (None, 3)), TensorInfo("b", "float32", (None, 3)))
    ordinary = {name: np.ones((2, 3), np.float32) for name in "ab"}
    found = [case.feeds for case in cases(inputs, None, ordinary) if case.at_edge and not case.feeds["a"].size]
    assert [feeds["b"].shape for feeds in found] == [(0, 3), (2, 3)]


def test_a_sum_of_dimensions_stays_their_sum():
    inputs = (TensorInfo("ids", "int64", (1, "past")), TensorInfo("all", "float32", (1, "past + 1", 2)))
    ordinary = {"ids": np.ones((1, 4), np.int64), "all": np.ones((1, 5, 2), np.float32)}
    found = by_regime(*inputs, ordinary=ordinary)
    assert (found["shortest"]["ids"].shape, found["shortest"]["all"].shape) == ((1, 1), (1, 2, 2))
    assert (found["longest"]["ids"].shape, found["longest"]["all"].shape) == ((1, 8), (1, 9, 2))


def test_single_numbers_stay_single_numbers():
    inputs = (TensorInfo("rate", "int64", ()), TensorInfo("x", "float32", ("n", 4)), TensorInfo("on", "bool", ()))
    assert {feeds[i.name].ndim for feeds in by_regime(*inputs).values() for i in (inputs[0], inputs[2])} == {0}


def test_the_same_inputs_are_not_tried_twice():
    found = list(cases((SIGNAL,), None, {"signal": np.zeros((1, 64), np.float32)}))
    assert "silence" not in {case.regime for case in found}  # the ordinary sample is silent already
    keys = [case.feeds["signal"].tobytes() for case in found]
    assert len(set(keys)) == len(keys)


def test_the_same_seed_gives_the_same_cases():
    first, again = (by_regime(SIGNAL) for _ in range(2))
    assert all(np.array_equal(first[name]["signal"], again[name]["signal"], equal_nan=True) for name in first)


def test_texts_and_models_without_inputs_have_no_regimes_but_do_not_fail():
    assert by_regime(TensorInfo("words", "str", (2,))) == {}
    assert cases((), None, {}) == []


def test_made_up_samples_begin_with_ordinary_ones_and_go_on_with_usual_regimes():
    found = mixed((SIGNAL,), None, 3)
    assert all(np.abs(sample["signal"]).max() > 0.5 for sample in found[:3])
    assert any(not sample["signal"].any() for sample in found[3:])
    assert all(np.abs(sample["signal"]).max() < 1e3 for sample in found)
    assert {sample["signal"].shape for sample in found} == {(1, 64)}


def test_three_regimes_hold_what_is_not_finite():
    made = {name: feeds["signal"] for name, feeds in by_regime(SIGNAL).items()}
    nan, infinite, lowest = made["NaN"], made["infinities"], made["minus infinity"]
    assert np.isnan(nan).any()
    assert np.isfinite(nan).any()
    assert not np.isinf(nan).any()
    assert {-np.inf, np.inf} <= set(infinite[np.isinf(infinite)])
    assert (np.signbit(infinite) & (infinite == 0)).any()
    assert np.isneginf(lowest.reshape(-1)[: lowest.size // 2]).all()


LOOP = """g (int64 n, int64 k, float[8] x) => (float[8] y, float[M] t) {
    y = Loop (n, , x) <body = b (int64 i, bool c, float[8] v) => (bool d, float[8] w) {
        d = Identity(c)  w = Neg(v) }>
    one = Constant<value_ints = [1]>()  r = Reshape(k, one)  t, places = TopK(x, r) }"""


def test_counts_are_0_and_1_together_and_each_alone(make_model):
    inputs = (TensorInfo("n", "int64", ()), TensorInfo("k", "int64", ()), TensorInfo("x", "float32", (8,)))
    model_ir = make_model(LOOP).ir
    (ordinary,) = generate_feeds(inputs, model_ir, 1, seed=0)
    made = [case for case in cases(inputs, model_ir, ordinary) if case.regime.startswith("counts of")]
    found = {(case.regime, int(case.feeds["n"]), int(case.feeds["k"])) for case in made}
    n, k = int(ordinary["n"]), int(ordinary["k"])
    assert {("counts of 0", 0, 0), ("counts of 0", 0, k), ("counts of 0", n, 0), ("counts of 1", 1, k)} <= found
    assert {case.at_edge for case in made if case.regime == "counts of 0"} == {True}
    assert {case.at_edge for case in made if case.regime == "counts of 1"} == {False}


def test_places_in_a_table_and_masks_are_no_counts(make_model):
    text = """g (int64[1] place, int64[2,3] mask) => (float[1,2] y, int64[2,3] m) {
        y = Gather(t, place)  m = Neg(mask) }"""
    inputs = (TensorInfo("place", "int64", (1,)), TensorInfo("mask", "int64", (2, 3)))
    found = by_regime(*inputs, model_ir=make_model(text, t=np.zeros((1, 2), np.float32)).ir)
    assert not {"counts of 0", "counts of 1"} & set(found)


MASKED = (
    "a = Add(s, m)  y = Softmax(a)",
    "a = Add(m, s)  b = Add(a, s)  y = Softmax(b)",
    "u = Unsqueeze(m, zero)  q = Squeeze(u, zero)  a = Add(s, q)  y = Softmax(a)",
    "a = Add(s, m)  top = ReduceMax<axes = [1]>(a)  d = Sub(a, top)  y = Exp(d)",
)


@pytest.mark.parametrize("name", ["m", "attention_mask"])
@pytest.mark.parametrize("body", MASKED)
def test_what_is_added_before_a_softmax_has_rows_of_minus_infinity(make_model, name, body):
    text = f"g (float[4,6] s, float[4,6] m) => (float[4,6] y) {{ {body} }}"
    model_ir = make_model(text, zero=np.int64([0])).ir
    model_ir.graph.inputs[1].name = name
    inputs = (TensorInfo("s", "float32", (4, 6)), TensorInfo(name, "float32", (4, 6)))
    found = by_regime(*inputs, model_ir=model_ir)
    rows = np.isneginf(found["masked rows of minus infinity"][name])
    assert (rows.all(axis=1) == [True, False, True, False]).all()
    assert not rows[1::2].any()
    assert (np.isneginf(found["minus infinity in each row"][name]).sum(axis=1) == 3).all()


def test_what_is_added_elsewhere_has_no_rows_of_minus_infinity(make_model):
    text = "g (float[4,6] s, float[4,6] m) => (float[4,6] y) { a = Add(s, m)  y = Relu(a) }"
    inputs = (TensorInfo("s", "float32", (4, 6)), TensorInfo("m", "float32", (4, 6)))
    assert "masked rows of minus infinity" not in by_regime(*inputs, model_ir=make_model(text).ir)
