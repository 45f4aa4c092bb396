import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.backends.buckets import cut_back, fill_up, read_buckets
from edgeopt.errors import UsageError

INPUTS = (
    TensorInfo("ids", "int64", (None, None)),
    TensorInfo("pairs", "float32", (None, None, None)),
    TensorInfo("rate", "int64", ()),
)
SHAPES = {"ids": (1, 32), "pairs": (1, 32, 32), "rate": ()}
AXES = {"seq:ids": (1,), "seq:pairs": (1, 2), "batch:ids": (0,), "batch:pairs": (0,)}


def buckets(sizes, cuts=None, axes=None):
    return read_buckets(SHAPES, sizes, axes or AXES, cuts or {}, INPUTS)


def given(batch, seq):
    return {"ids": (batch, seq), "pairs": (batch, seq, seq), "rate": ()}


def test_each_combination_of_sizes_is_a_program():
    found = buckets({"seq": (16, 32), "batch": (1, 4)})
    assert found.programs == tuple(given(batch, seq) for seq in (16, 32) for batch in (1, 4))


def test_a_size_that_is_a_bucket_runs_there_as_it_is():
    fit = buckets({"seq": (16, 32)}, {"seq:y": (1,)}).fit(given(1, 16))
    assert fit.shapes == given(1, 16)
    assert not fit.regions
    assert not fit.cuts


@pytest.mark.parametrize(
    "shapes", [given(1, 33), given(2, 16), given(1, 0), {**given(1, 16), "pairs": (1, 16, 32)}]
)
def test_what_no_bucket_holds_runs_with_open_shapes(shapes):
    assert buckets({"seq": (16, 32)}, {"seq:y": (1,)}).fit(shapes) is None


def test_between_two_sizes_nothing_is_filled_up_unless_that_was_proved():
    assert buckets({"seq": (16, 32)}).fit(given(1, 20)) is None
    fit = buckets({"seq": (16, 32)}, {"seq:y": (1,), "seq:score": ()}).fit(given(1, 20))
    assert fit.shapes == given(1, 32)
    assert fit.regions == {"ids": (slice(1), slice(20)), "pairs": (slice(1), slice(20), slice(20))}
    assert fit.cuts == {"y": (slice(None), slice(20))}


def test_one_dimension_is_filled_up_while_another_must_be_exact():
    found = buckets({"seq": (16, 32), "batch": (1, 4)}, {"seq:y": (1,)})
    assert found.fit(given(4, 20)).shapes == given(4, 32)
    assert found.fit(given(3, 32)) is None
    assert found.leave_gaps
    both = buckets({"seq": (16, 32), "batch": (1, 4)}, {"seq:y": (1,), "batch:y": (0,)})
    assert both.fit(given(3, 20)).cuts == {"y": (slice(3), slice(20))}
    assert not both.leave_gaps


def test_sizes_without_a_gap_need_no_program_with_open_shapes():
    assert not buckets({"batch": (1, 2, 3)}).leave_gaps


def test_filled_up_and_cut_back():
    larger = fill_up(np.ones((1, 2), np.float32), (1, 4), (slice(1), slice(2)))
    assert larger.tolist() == [[1, 1, 0, 0]]
    results = {"y": larger, "z": larger}
    cut_back(results, {"y": (slice(None), slice(3))})
    assert results["y"].shape == (1, 3)
    assert results["y"].base is None
    assert results["z"] is larger


@pytest.mark.parametrize(
    ("sizes", "axes", "said"),
    [
        ({"seq": ()}, AXES, "no sizes"),
        ({"seq": (0, 8)}, AXES, "no sizes"),
        ({"time": (8,)}, AXES, "'time'"),
        ({"seq": (8,)}, {"seq:nothing": (1,)}, "'nothing'"),
        ({"seq": (8,)}, {"seq:ids": (2,)}, "'ids'"),
        ({"seq": tuple(range(1, 70))}, AXES, "69 programs"),
    ],
)
def test_options_that_do_not_fit_are_refused(sizes, axes, said):
    with pytest.raises(UsageError, match=said):
        buckets(sizes, axes=axes)


def test_every_axis_needs_a_size():
    with pytest.raises(UsageError, match="'pairs'"):
        read_buckets({"ids": (1, 32)}, {"seq": (8,)}, AXES, {}, INPUTS)


def test_below_what_pays_to_fill_up_open_shapes_are_left_to_run_it():
    found = read_buckets(SHAPES, {"seq": (16, 32)}, AXES, {"seq:y": (1,)}, INPUTS, fill={"seq": (1, 24)})
    assert found.fit(given(1, 3)).shapes == given(1, 16)
    assert found.fit(given(1, 23)) is None
    assert found.fit(given(1, 24)).shapes == given(1, 32)
    assert found.leave_gaps
    with pytest.raises(UsageError, match="1 sizes to fill up from"):
        read_buckets(SHAPES, {"seq": (16, 32)}, AXES, {"seq:y": (1,)}, INPUTS, fill={"seq": (1,)})
