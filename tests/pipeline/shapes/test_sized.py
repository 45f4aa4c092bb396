import dataclasses
import math

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import Samples, open_samples, save_samples
from edgeopt.data.split import split
from edgeopt.errors import UsageError
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.pipeline.shapes.filling import (
    describe_filling,
    gaps_of,
    may_be_settled,
    min_filled,
    prove_filling,
    settle_filling,
)
from edgeopt.pipeline.shapes.sized import (
    MAX_PROGRAMS,
    MAX_SIZES,
    Shaped,
    SizedDimension,
    in_turn,
    part_of,
    read_dimensions,
    resized,
    shape_samples,
)
from edgeopt.workers.host import LocalHost
from tests.conftest import seeded, write_onnx

SEQ = SizedDimension("seq", (2, 4, 8), 4, {"ids": (1,), "pairs": (1, 2)})
BATCH = SizedDimension("batch", (1, 3), 1, {"ids": (0,), "pairs": (0,)})
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
    huge = SizedDimension("seq", (2, 1 << 14), 2, SEQ.axes)
    with pytest.raises(UsageError, match="GiB"):
        shape_samples(samples, (huge,), split(COUNT, True), tmp_path)


def test_options_say_what_was_proved(samples, tmp_path):
    shaped = shape_samples(samples, (SEQ,), split(COUNT, True), tmp_path)
    axes = {"seq:ids": [1], "seq:pairs": [1, 2]}
    assert shaped.options == {"buckets": {"seq": [2, 4, 8]}, "bucket_axes": axes}
    shaped = dataclasses.replace(shaped, cuts={"seq": {"y": (1,), "score": ()}}, mask="ids")
    assert shaped.options["bucket_cuts"] == {"seq:y": [1], "seq:score": []}
    assert shaped.options["bucket_mask"] == {"ids": [1]}


INPUTS = (
    TensorInfo("ids", "int64", ("batch", "seq")),
    TensorInfo("pairs", "float32", ("batch", "seq", "seq")),
    TensorInfo("extra", "float32", (None, 4)),
)


def sizes(*texts):
    return {d.name: d.sizes for d in read_dimensions(texts, INPUTS)[0]}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("seq=16:32:128", (16, 32, 64, 128)),
        ("seq=1:1:1", (1,)),
        ("batch=1:4:16", (1, 2, 4, 8, 16)),
        ("seq=10:50:300", (10, 20, 50, 80, 160, 300)),  # 40 is as good as 50
        ("seq=64,16,32,16", (16, 32, 64)),
    ],
)
def test_least_usual_largest_and_doublings_between_or_a_list(text, wanted):
    assert sizes(text) == {text.partition("=")[0]: wanted}


def test_the_usual_size_is_the_one_named_or_the_middle_of_a_list():
    found = read_dimensions(("seq=16:100:128", "batch=1,2,8"), INPUTS)[0]
    assert [d.usual for d in found] == [100, 2]
    assert found[0].axes == {"ids": (1,), "pairs": (1, 2)}


def test_a_dimension_without_a_name_is_called_by_its_place():
    assert sizes("extra.0=1:2:4") == {"extra.0": (1, 2, 4)}


def test_many_sizes_are_thinned_out_and_that_is_said():
    found, said = read_dimensions(("seq=1:64:4096", "batch=1:8:64"), INPUTS)
    assert {1, 64, 4096} <= set(found[0].sizes)
    assert {1, 8, 64} <= set(found[1].sizes)
    assert len(found[0].sizes) * len(found[1].sizes) <= MAX_PROGRAMS
    assert "Sizes in between were reduced" in said
    assert "seq: 1," in said
    assert not read_dimensions(("seq=16:32:128",), INPUTS)[1]


@pytest.mark.parametrize(
    ("texts", "said", "hint"),
    [
        (("sequence=1:2:4",), "no open dimension 'sequence'", "batch, seq, extra.0"),
        (("bath=1:2:4",), "no open dimension 'bath'", "Did you mean 'batch'"),
        (("seq",), "which sizes", "Write seq=16:32:128"),
        (("seq=8:4:16",), "must list the minimum", "Write seq"),
        (("seq=8:16",), "2 sizes; it needs three", "Write seq"),
        (("seq=a:b:c",), "'a' is not a size", "whole numbers"),
        (("seq=0:1:2",), "'0' is not a size", "whole numbers"),
        (("seq=4,",), "'' is not a size", "whole numbers"),
        (("seq=4", "seq=8"), "twice", "at once"),
        ((f"seq={','.join(map(str, range(1, MAX_SIZES + 2)))}",), f"{MAX_SIZES + 1} combinations", "fewer"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(texts, said, hint):
    with pytest.raises(UsageError) as caught:
        read_dimensions(texts, INPUTS)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_a_model_without_open_dimensions_needs_no_buckets():
    with pytest.raises(UsageError, match="no open dimension") as caught:
        read_dimensions(("seq=4",), (TensorInfo("x", "float32", (1, 3)),))
    assert "are fixed" in caught.value.hint


X, MASK = {"x": ["batch", "seq", 4]}, {"mask": ["batch", "seq"]}
HIDDEN = [("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["hidden"], {})]
SEQ_FILLING = SizedDimension("seq", (4, 8), 4, {"x": (1,)})
MASKED = SizedDimension("seq", (4, 8), 4, {"x": (1,), "mask": (1,)})
BATCH_FILLING = SizedDimension("batch", (1, 4), 1, {"x": (0,)})
TOLD = {
    # Each place for itself; the mean over all places; that over the places that a mask keeps.
    "places": (HIDDEN, {"hidden": ["batch", "seq", 8]}, X),
    "mean": ([*HIDDEN, ("ReduceMean", ["hidden"], ["y"], {"axes": [1], "keepdims": 0})], {"y": ["batch", 8]}, X),
    "masked": (
        [
            *HIDDEN,
            ("Unsqueeze", ["mask", "last"], ["column"], {}),
            ("Mul", ["hidden", "column"], ["kept"], {}),
            ("ReduceSum", ["kept", "along"], ["sum"], {"keepdims": 0}),
            ("ReduceSum", ["mask", "along"], ["count"], {}),
            ("Div", ["sum", "count"], ["y"], {}),
        ],
        {"y": ["batch", 8]},
        {**X, **MASK},
    ),
}


def told(name, dimensions, folder, mask=None):
    nodes, outputs, inputs = TOLD[name]
    axes = {"last": np.array([-1]), "along": np.array([1])} if name == "masked" else {}
    model = write_onnx(folder / f"{name}.onnx", nodes, {"w": seeded(4, 8), **axes}, inputs, outputs)
    arrays = {"x": seeded(6, 1, 8, 4, seed=3)} | ({} if mask is None else {"mask": mask})
    samples = Samples(arrays, {"x": 3, "mask": 2})
    runner = TrialRunner(LocalHost(folder), folder, folder)
    return prove_filling(runner, model, Candidate("source", "onnxruntime-cpu"), dimensions, [samples])


def test_places_that_stand_for_themselves_are_filled_up_and_cut_back(tmp_path):
    seq, batch = told("places", [SEQ_FILLING, BATCH_FILLING], tmp_path)
    assert seq.cuts == {"hidden": (1,)}
    assert batch.cuts == {"hidden": (0,)}
    assert "padded with zeros" in str(seq)


def test_a_mean_over_all_places_is_not_but_a_batch_of_it_is(tmp_path):
    seq, batch = told("mean", [SEQ_FILLING, BATCH_FILLING], tmp_path)
    assert seq.cuts is None
    assert "of 4 the outputs differ" in str(seq)
    assert batch.cuts == {"y": (0,)}


def test_a_mask_that_is_one_lets_sequences_be_filled_up_and_cut(tmp_path):
    (seq,) = told("masked", [MASKED], tmp_path, np.ones((6, 1, 8), np.float32))
    assert (seq.cuts, seq.mask) == ({"y": ()}, "mask")
    assert "cut off where 'mask' ends" in str(seq)


def test_an_input_that_is_only_called_a_mask_proves_nothing(tmp_path, monkeypatch):
    nodes, outputs, inputs = TOLD["masked"]
    # It counts what the mask leaves out, too.
    odd = [node if node[1] != ["mask", "along"] else ("ReduceSum", ["x", "along"], ["c"], {}) for node in nodes]
    odd.insert(-1, ("ReduceMean", ["c"], ["count"], {"axes": [1, 2], "keepdims": 0}))
    monkeypatch.setitem(TOLD, "masked", (odd, outputs, inputs))
    (seq,) = told("masked", [MASKED], tmp_path, np.ones((6, 1, 8), np.float32))
    assert seq.cuts is None
    assert "masked by 'mask'" in str(seq)


def test_a_model_that_does_not_run_at_such_sizes_is_told_so(tmp_path):
    nodes = [("Reshape", ["x", "shape"], ["y"], {})]
    model = write_onnx(tmp_path / "fixed.onnx", nodes, {"shape": np.array([1, 8, 4])}, X, {"y": [1, 8, 4]})
    samples = Samples({"x": seeded(6, 1, 8, 4)}, {"x": 3})
    runner = TrialRunner(LocalHost(tmp_path), tmp_path, tmp_path)
    (seq,) = prove_filling(runner, model, Candidate("source", "onnxruntime-cpu"), [SEQ_FILLING], [samples])
    assert seq.cuts is None
    assert "failed" in seq.reason


@pytest.mark.parametrize("rows", [1, 2])
def test_rows_of_which_the_mask_keeps_nothing_keep_their_length(tmp_path, rows):
    pytest.importorskip("openvino")
    # All places alike where the mask is zero: then their number counts.
    nodes = [
        ("Unsqueeze", ["mask", "last"], ["column"], {}),
        ("Mul", ["column", "large"], ["score"], {}),
        ("Softmax", ["score"], ["weight"], {"axis": 1}),
        ("Mul", ["x", "weight"], ["kept"], {}),
        ("ReduceSum", ["kept", "along"], ["y"], {"keepdims": 0}),
    ]
    weights = {"last": np.array([-1]), "along": np.array([1]), "large": np.array(1e4, np.float32)}
    model = write_onnx(tmp_path / "soft.onnx", nodes, weights, {**X, **MASK}, {"y": ["batch", 4]})
    options = {
        "shapes": {"x": [rows, 4, 4], "mask": [rows, 4]},
        "buckets": {"seq": [4, 8]},
        "bucket_axes": {"seq:x": [1], "seq:mask": [1]},
        "bucket_cuts": {"seq:y": []},
        "bucket_mask": {"mask": [1]},
        "precision": "f32",
    }
    plain = backend_named("openvino-cpu").load(model, {"precision": "f32"})
    buckets = backend_named("openvino-cpu").load(model, options)
    for length, kept in ((6, 6), (6, 0), (8, 3), (8, 0), (6, 2), (4, 0), (9, 3)):
        mask = np.zeros((rows, length), np.float32)
        mask[0, :kept] = mask[-1, : max(kept, 1)] = 1
        if rows == 1:
            mask[0, kept:] = 0
        feeds = {"x": seeded(rows, length, 4, seed=length), "mask": mask}
        for _ in range(2):
            np.testing.assert_allclose(buckets.run(feeds)["y"], plain.run(feeds)["y"], atol=1e-5)


SEQ_FILL_FROM = SizedDimension("seq", (1, 8, 9, 32), 8, {"x": (1,)})


def test_each_gap_is_tried_where_most_is_filled_up_and_half_way():
    assert [(gap.size, gap.bucket) for gap in gaps_of([SEQ_FILL_FROM])] == [(2, 8), (4, 8), (10, 32), (20, 32)]


@pytest.mark.parametrize(
    ("paying", "minimum"),
    [
        ({2, 4, 10, 20}, (1, 2, 9, 10)),
        ({4, 20}, (1, 4, 9, 20)),
        ({2, 20}, (1, 2, 9, 20)),  # what pays at two pays at four
        (set(), (1, 8, 9, 32)),
    ],
)
def test_inputs_are_filled_up_from_where_it_pays(paying, minimum):
    assert min_filled(SEQ_FILL_FROM, {gap for gap in gaps_of([SEQ_FILL_FROM]) if gap.size in paying}) == minimum


def test_what_is_left_to_open_shapes_is_said():
    assert "padded from 4 to 8, 20 to 32; others run with open shapes" in describe_filling(
        SEQ_FILL_FROM, (1, 4, 9, 20)
    )
    assert "no inputs are padded" in describe_filling(SEQ_FILL_FROM, (1, 8, 9, 32))


@pytest.mark.timing
def test_work_that_grows_with_the_size_is_not_filled_up_to_a_hundredfold(tmp_path):
    pytest.importorskip("openvino")
    nodes = [("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["y"], {})]
    shapes = {"x": ["batch", "seq", 64]}, {"y": ["batch", "seq", 512]}
    model = write_onnx(tmp_path / "wide.onnx", nodes, {"w": seeded(64, 512)}, *shapes)
    wide = SizedDimension("seq", (8, 2048), 8, {"x": (1,)})
    samples = Samples({"x": seeded(4, 1, 8, 64)}, {"x": 3})
    shaped = Shaped((wide,), samples, samples, tmp_path, cuts={"seq": {"y": (1,)}})
    runner = TrialRunner(LocalHost(tmp_path), tmp_path, tmp_path)
    candidate = Candidate("source", "openvino-cpu", {"shapes": {"x": [1, 8, 64]}, "precision": "f32"})
    assert may_be_settled(shaped)
    minimum = settle_filling(runner, shaped, candidate, model, math.inf)
    assert minimum["seq"][1] > 9  # nine places are not padded to 2048
    settled = dataclasses.replace(shaped, fill_from=minimum)
    assert settled.options["bucket_fill"] == {"seq": list(minimum["seq"])}
    assert not may_be_settled(settled)


def test_what_was_not_measured_is_filled_up_by_a_third_at_most(tmp_path):
    samples = Samples({"x": seeded(4, 1, 8, 64)}, {"x": 3})
    shaped = Shaped((SEQ_FILL_FROM,), samples, samples, tmp_path, cuts={"seq": {"y": (1,)}})
    runner, candidate = TrialRunner(LocalHost(tmp_path), tmp_path, tmp_path), Candidate("source", "openvino-cpu")
    assert settle_filling(runner, shaped, candidate, tmp_path, 0.0) == {"seq": (1, 8, 9, 32)}
    even = SizedDimension("seq", (4, 8), 8, {"x": (1,)})
    shaped = Shaped((even,), samples, samples, tmp_path, cuts={"seq": {"y": (1,)}})
    assert settle_filling(runner, shaped, candidate, tmp_path, 0.0) == {"seq": (4, 6)}
