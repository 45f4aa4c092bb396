import zlib

import numpy as np
import onnxruntime as ort
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.errors import BundleError, UsageError
from edgeopt.events import Progress
from edgeopt.graph.model import load, save
from edgeopt.quant import calibrate
from edgeopt.quant import calibrate as module
from edgeopt.quant.calibrate import observe
from edgeopt.quant.compare_calibrations import compare_calibrations
from edgeopt.quant.ranges import METHODS
from edgeopt.quant.records import QuantSettings, Range
from edgeopt.quant.schemes import SchemeContext
from edgeopt.quant.schemes.base import Smoothing
from edgeopt.quant.write import Numbers, Recorded, Trace, decoded, encoded, record_of, write_again
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


def test_a_name_that_is_none(conv_model, conv_samples):
    with pytest.raises(LookupError, match="'kernel'"):
        observe(conv_model, conv_samples, ["c", "kernel"])


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


@pytest.fixture
def heavy_tails():
    """With one pixel in a thousand far out, what a method cuts off decides how exact it is."""
    images = np.random.default_rng(0).standard_t(2.5, (24, 3, 16, 16)).astype(np.float32)
    return Samples({"x": images}, {"x": 4})


def test_every_method_once_and_the_most_exact_first(conv_model, heavy_tails):
    rows = compare_calibrations(conv_model, heavy_tails, ["x", "c", "p"], QuantSettings())
    assert {row.method for row in rows} == {method.name for method in METHODS}
    assert [row.tensor_db for row in rows] == sorted((row.tensor_db for row in rows), reverse=True)
    by_name = {row.method: row for row in rows}
    assert by_name["mse"].tensor_db >= by_name["minmax"].tensor_db
    assert by_name["minmax"].cut_off_share == 0 < by_name["percentile"].cut_off_share < 0.001
    assert all(row.worst_tensor in {"x", "c", "p"} and row.worst_db <= row.tensor_db for row in rows)
    assert by_name["entropy"].seconds > by_name["minmax"].seconds > 0
    assert all(row.snr_db is None and row.note for row in rows)


def test_the_whole_model_decides_where_somebody_judges_it(conv_model, heavy_tails):
    """The judge wants wide ranges, whatever the tensors themselves would like."""
    asked = []

    def judge(ranges):
        asked.append(ranges)
        return ranges["x"].high, ranges["x"].high - 1

    rows = compare_calibrations(conv_model, heavy_tails, ["x"], QuantSettings(), judge=judge)
    assert len(asked) == len(METHODS)
    assert rows[0].method == "minmax"
    assert rows[0].snr_db == pytest.approx(float(heavy_tails.arrays["x"].max()))
    assert [row.low_db for row in rows] == [row.snr_db - 1 for row in rows]


FLOATS = np.array([[1.5, -0.1], [3e-38, 7.0]], np.float32)


def trace():
    context = SchemeContext(
        "onnxruntime-cpu",
        QuantSettings(),
        {"x": Range(-0.1, 2 / 3)},
        {},
        {"MatMul_0": Smoothing("x/smoothed", FLOATS[0]), "MatMul_3": Smoothing("x/smoothed", FLOATS[0])},
    )
    return Trace(context)


def test_what_is_recorded_comes_back_to_the_last_bit():
    found = decoded(encoded(record_of({"MatMul_0": "int8"}, trace(), {"MatMul_0": FLOATS[0]})))
    assert found == record_of({"MatMul_0": "int8"}, trace(), {"MatMul_0": FLOATS[0]})
    assert found.ranges == {"x": (-0.1, 2 / 3)}
    assert found.smoothing["x/smoothed"].layers == ("MatMul_0", "MatMul_3")
    assert encoded(found).count(b"\n") < 30, "a line for each tensor"


def test_forms_that_do_not_smooth_have_no_factors():
    assert not record_of({"MatMul_0": "w8"}, trace(), {}).smoothing


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"colour": 1}', "colour"),
        (b'{"schema": 9}', "schema 9"),
        (b'{"ranges": {"x": [1]}}', "cannot be read"),
    ],
)
def test_what_is_no_record(content, says):
    with pytest.raises(BundleError, match=says):
        decoded(content)


@pytest.mark.parametrize(
    "numbers",
    [Numbers((2,), b"abc"), Numbers((3,), b"x\x9cc`\x80\x01\x00\x00\x04\x00\x01"), Numbers((1 << 40,), b"")],
)
def test_arrays_that_are_none(matmul_model, numbers):
    with pytest.raises(BundleError, match="record of the quantization"):
        write_again(
            load(matmul_model).ir, {}, "onnxruntime-cpu", QuantSettings(), Recorded(weights={"w": numbers})
        )


def test_factors_of_another_model_are_refused(matmul_model):
    record = decoded(encoded(record_of({}, trace(), {"Conv_0": FLOATS[0]})))
    with pytest.raises(UsageError, match="'Conv_0' cannot be equalized"):
        write_again(load(matmul_model).ir, {}, "onnxruntime-cpu", QuantSettings(), record)


def test_biases_recorded_by_earlier_versions_are_written(matmul_model, tmp_path):
    mean = np.linspace(-1, 1, 64, dtype=np.float32)
    record = Recorded(biases={"MatMul_0": Numbers(mean.shape, zlib.compress(mean.tobytes()))})
    model = load(matmul_model).ir
    found = write_again(model, {}, "onnxruntime-cpu", QuantSettings(), decoded(encoded(record)))
    save(found.model, tmp_path / "corrected.onnx")
    session = ort.InferenceSession(tmp_path / "corrected.onnx", providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"x": np.zeros((1, 32), np.float32)})
    wanted = np.maximum(seeded(64, seed=1) - mean, 0) @ seeded(64, 8, seed=2)
    assert np.allclose(output, wanted, atol=1e-5)
