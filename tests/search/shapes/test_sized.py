import dataclasses

import numpy as np
import pytest

from edgeopt.data.samples import Samples, open_samples, save_samples
from edgeopt.data.split import split
from edgeopt.errors import UsageError
from edgeopt.search.shapes.sized import Dimension, in_turn, part_of, resized, shape_samples

SEQ = Dimension("seq", (2, 4, 8), 4, {"ids": (1,), "pairs": (1, 2)})
BATCH = Dimension("batch", (1, 3), 1, {"ids": (0,), "pairs": (0,)})
COUNT = 24


@pytest.fixture
def samples():
    ids = np.arange(COUNT * 6, dtype=np.int64).reshape(COUNT, 1, 6)
    pairs = np.zeros((COUNT, 1, 6, 6), np.float32)
    return Samples({"ids": ids, "pairs": pairs, "rate": np.arange(COUNT)}, {"ids": 2, "pairs": 3, "rate": 0})


def test_sequences_are_cut_or_repeated_in_all_inputs_alike(samples):
    part = range(COUNT)
    short, long = (resized(samples, 1, part, [SEQ], {"seq": size}) for size in (2, 8))
    assert short["ids"].tolist() == [[6, 7]]
    assert long["ids"].tolist() == [[6, 7, 8, 9, 10, 11, 6, 7]]
    assert long["pairs"].shape == (1, 8, 8)
    assert long["rate"] == 1


def test_batches_are_made_of_samples_that_do_the_same_work(samples):
    used = split(COUNT, True)
    last = COUNT - 1
    feeds = resized(samples, last, part_of(used, last, COUNT), [SEQ, BATCH], {"seq": 2, "batch": 3})
    first = used.prove_first
    assert feeds["ids"][:, 0].tolist() == [6 * last, 6 * first, 6 * (first + 1)]


@pytest.mark.parametrize("index", [0, 11, 12, 17, 18, 23])
def test_every_sample_has_a_part_that_it_is_in(index):
    used = split(COUNT, True)
    part = part_of(used, index, COUNT)
    assert index in part
    assert len({index in range(first, first + n) for first, n in ((used.prove_first, used.prove_count),)}) == 1
    assert (index >= used.prove_first) == (part.start == used.prove_first)


def test_every_other_sample_has_the_usual_size_and_the_rest_take_turns():
    turns = in_turn([SEQ, BATCH], 16)
    assert all(turn == {"seq": 4, "batch": 1} for turn in turns[::2])
    assert {turn["seq"] for turn in turns} == {2, 3, 4, 6, 8}  # 3 and 6 lie between
    assert {turn["batch"] for turn in turns} == {1, 2, 3}


def test_both_sets_are_written_and_the_first_sample_is_usual(samples, tmp_path):
    shaped = shape_samples(samples, (SEQ,), split(COUNT, True), tmp_path)
    save_samples(shaped.samples, tmp_path / "mixed")
    usual, mixed = open_samples(shaped.usual_path), open_samples(tmp_path / "mixed")
    assert {usual.feeds(k)["ids"].shape for k in range(COUNT)} == {(1, 4)}
    assert mixed.shapes()["ids"] == [1, 4]
    for k in range(COUNT):
        size = shaped.sizes_of(k)["seq"]
        assert mixed.feeds(k)["ids"].shape == (1, size)
        assert mixed.feeds(k)["pairs"].shape == (1, size, size)
        assert mixed.feeds(k)["ids"].flags.c_contiguous
        assert mixed.feeds(k)["ids"][0, 0] == 6 * k
    part = mixed[range(1, 3)]
    assert [part.feeds(k)["ids"].shape for k in range(2)] == [mixed.feeds(k)["ids"].shape for k in (1, 2)]


def test_sizes_that_would_fill_the_memory_are_refused(samples, tmp_path):
    huge = Dimension("seq", (2, 1 << 14), 2, SEQ.axes)
    with pytest.raises(UsageError, match="GiB"):
        shape_samples(samples, (huge,), split(COUNT, True), tmp_path)


def test_options_say_what_was_proved(samples, tmp_path):
    shaped = shape_samples(samples, (SEQ,), split(COUNT, True), tmp_path)
    axes = {"seq:ids": [1], "seq:pairs": [1, 2]}
    assert shaped.options == {"buckets": {"seq": [2, 4, 8]}, "bucket_axes": axes}
    shaped = dataclasses.replace(shaped, cuts={"seq": {"y": (1,), "score": ()}}, mask="ids")
    assert shaped.options["bucket_cuts"] == {"seq:y": [1], "seq:score": []}
    assert shaped.options["bucket_mask"] == {"ids": [1]}
