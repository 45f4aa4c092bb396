import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.measure.host import LocalHost
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.ground import Ground
from edgeopt.search.shapes.filling import prove_filling
from edgeopt.search.shapes.sized import Dimension
from tests.conftest import seeded, write_onnx

X, MASK = {"x": ["batch", "seq", 4]}, {"mask": ["batch", "seq"]}
HIDDEN = [("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["hidden"], {})]
SEQ = Dimension("seq", (4, 8), 4, {"x": (1,)})
MASKED = Dimension("seq", (4, 8), 4, {"x": (1,), "mask": (1,)})
BATCH = Dimension("batch", (1, 4), 1, {"x": (0,)})
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
    ground = Ground(LocalHost(folder), folder, folder)
    return prove_filling(ground, model, Candidate("source", "onnxruntime-cpu"), dimensions, [samples])


def test_places_that_stand_for_themselves_are_filled_up_and_cut_back(tmp_path):
    seq, batch = told("places", [SEQ, BATCH], tmp_path)
    assert seq.cuts == {"hidden": (1,)}
    assert batch.cuts == {"hidden": (0,)}
    assert "padded with zeros" in str(seq)


def test_a_mean_over_all_places_is_not_but_a_batch_of_it_is(tmp_path):
    seq, batch = told("mean", [SEQ, BATCH], tmp_path)
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
    ground = Ground(LocalHost(tmp_path), tmp_path, tmp_path)
    (seq,) = prove_filling(ground, model, Candidate("source", "onnxruntime-cpu"), [SEQ], [samples])
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
