import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.events import Progress
from edgeopt.quant import calibrate
from edgeopt.quant import calibrate as module
from edgeopt.quant.calibrate import observe
from tests.conftest import seeded, write_onnx


def reference(path, samples, names):
    """The values of a model whose results are all of these, in one session."""
    import onnx

    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in samples.arrays)
    watched_path = path.with_suffix(".all.onnx")
    onnx.save(model, watched_path)
    session = backend_named("onnxruntime-cpu").load(watched_path, {"graph_level": "none"})
    runs = [{**samples.feeds(k), **session.run(samples.feeds(k))} for k in range(len(samples))]
    session.close()
    return {name: [run[name] for run in runs] for name in names}


TENSORS = ["x", "c", "r", "p", "flat", "y"]


def test_extremes_counts_and_channels_are_those_of_the_values(conv_model, conv_samples, tmp_path):
    path = tmp_path / "conv.onnx"
    path.write_bytes(conv_model.read_bytes())
    found = observe(path, conv_samples, TENSORS, histograms=True).seen
    wanted = reference(path, conv_samples, TENSORS)
    assert list(found) == TENSORS
    for name, values in wanted.items():
        seen = found[name]
        assert seen.lows == pytest.approx([v.min() for v in values], rel=1e-5, abs=1e-6)
        assert seen.highs == pytest.approx([v.max() for v in values], rel=1e-5, abs=1e-6)
        assert seen.elements == values[0].size
        counts, _ = np.histogram(np.array(values), 2048, range=(-seen.reach, seen.reach))
        assert np.abs(seen.histogram.counts - counts).sum() <= 0.01 * counts.sum()
        together = np.moveaxis(np.concatenate(values), 1, 0).reshape(values[0].shape[1], -1)
        assert seen.channel_lows == pytest.approx(together.min(axis=1), rel=1e-5, abs=1e-6)
        assert seen.channel_highs == pytest.approx(together.max(axis=1), rel=1e-5, abs=1e-6)


def test_in_chunks_it_sees_the_same(conv_model, conv_samples, monkeypatch):
    whole = observe(conv_model, conv_samples, TENSORS, histograms=True).seen
    monkeypatch.setattr(calibrate, "CHUNK_BYTES", 20_000)
    sessions = []
    plain = module.watched
    monkeypatch.setattr(
        module, "watched", lambda model, names: sessions.append(list(names)) or plain(model, names)
    )
    parts = observe(conv_model, conv_samples, TENSORS, histograms=True).seen
    assert len(sessions) > 1
    assert [name for chunk in sessions for name in chunk] == TENSORS[1:]
    for name in TENSORS:
        assert np.array_equal(parts[name].lows, whole[name].lows)
        assert np.array_equal(parts[name].histogram.counts, whole[name].histogram.counts)


def test_no_chunk_is_larger_than_its_limit_unless_it_is_one_tensor(monkeypatch):
    shapes = {"c": (1, 16, 16, 16), "r": (1, 16, 16, 16), "p": (16,), "unknown": None, "y": (10,)}
    for limit in (1, 200, 17_000, 40_000):
        monkeypatch.setattr(calibrate, "CHUNK_BYTES", limit)
        sizes = {name: 4 * int(np.prod(shape)) if shape else limit // 8 for name, shape in shapes.items()}
        chunks = calibrate.chunks_of(shapes)
        assert [name for chunk in chunks for name in chunk] == list(shapes)
        assert all(len(chunk) == 1 or sum(sizes[name] for name in chunk) <= limit for chunk in chunks)


def test_only_inputs_need_no_run(conv_model, conv_samples):
    found = observe(conv_model, conv_samples, ["x"], histograms=True).seen["x"]
    assert found.high == conv_samples.arrays["x"].max()
    assert found.histogram.counts.sum() == conv_samples.arrays["x"].size


def test_a_name_that_is_none(conv_model, conv_samples):
    with pytest.raises(LookupError, match="'kernel'"):
        observe(conv_model, conv_samples, ["c", "kernel"])


def test_nan_and_infinity_inside_the_model_are_told_and_left_out(tmp_path):
    path = write_onnx(
        tmp_path / "log.onnx",
        [("Log", ["x"], ["l"], {}), ("MatMul", ["l", "w"], ["y"], {})],
        {"w": seeded(4, 2)},
        {"x": [1, 4]},
        {"y": [1, 2]},
    )
    rows = np.array([[1, 2, 3, 4], [0, 1, 2, 3], [-1, 1, 1, 1]], np.float32)
    seen = observe(path, Samples({"x": rows}, {"x": 2}), ["l"], histograms=True).seen["l"]
    assert seen.not_finite == (1, 2)
    assert seen.high == pytest.approx(np.log(4))
    assert seen.low == 0
    assert seen.histogram.counts.sum() == 10


def test_lengths_that_differ_between_samples_have_no_channels(tmp_path):
    """A mask decides how many rows are left; their values count all the same."""
    path = write_onnx(
        tmp_path / "lengths.onnx",
        [
            ("Greater", ["x", "zero"], ["mask"], {}),
            ("Compress", ["x", "mask"], ["some"], {}),
            ("Unsqueeze", ["some", "axis"], ["row"], {}),
            ("ReduceSum", ["row"], ["y"], {}),
        ],
        {"zero": np.zeros(1, np.float32), "axis": np.zeros(1, np.int64)},
        {"x": [6]},
        {"y": None},
    )
    rows = np.array([[1, 2, 3, -4, -5, -6], [-1, -1, 7, -1, -1, -1], [-1] * 6], np.float32)
    seen = observe(path, Samples({"x": rows}, {"x": 1}), ["row"], histograms=True).seen["row"]
    assert seen.highs.tolist() == [3, 7, 0]
    assert seen.lows.tolist() == [1, 7, 0]
    assert seen.channel_lows is None
    assert seen.histogram.counts.sum() == 4


def test_progress_tells_how_far_it_is(conv_model, conv_samples):
    told = []
    observe(conv_model, conv_samples[range(4)], ["c"], histograms=True, emit=told.append)
    assert [(event.done, event.total) for event in told] == [(k, 8) for k in range(1, 9)]
    assert all(isinstance(event, Progress) and event.time_left_s >= 0 for event in told)
    assert told[-1].time_left_s == 0


def test_what_is_held_does_not_grow_with_the_samples(tmp_path):
    """100 samples with 8 MB of inner values each, one at a time; the C library keeps some of what was freed."""
    path = write_onnx(
        tmp_path / "wide.onnx",
        [("MatMul", ["x", "w"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("MatMul", ["b", "v"], ["y"], {})],
        {"w": seeded(2, 1000), "v": seeded(1000, 2)},
        {"x": ["rows", 2]},
        {"y": ["rows", 2]},
    )
    rows = np.random.default_rng(0).standard_normal((100, 1000, 2)).astype(np.float32)
    samples = Samples({"x": rows}, {"x": 2})
    peak = observe(path, samples, ["a", "b"]).peak_bytes
    if peak is None:
        pytest.skip("this system does not tell what is in memory")
    assert peak < 300 << 20, "all samples together would be 800 MB"
