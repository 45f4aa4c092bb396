from itertools import pairwise

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgeopt.backends import backend_named
from edgeopt.backends.base import TensorInfo
from edgeopt.commands.bench.sweep import Sweep, SweepPoint, best_by_runs, find_axis, resized, sweep
from edgeopt.data.samples import check_samples, from_feeds, open_samples, save_samples
from edgeopt.errors import ModelError, UsageError
from edgeopt.events import ignore
from edgeopt.measure.contender import Side
from edgeopt.measure.messages import Load
from edgeopt.measure.sequential import Rules
from edgeopt.workers.host import LocalHost

TEXT = (TensorInfo("ids", "int64", ("batch", "seq")), TensorInfo("mask", "int64", ("batch", "seq")))
FIXED = (TensorInfo("x", "float32", (1, 3, 8, 8)),)
OPEN = (TensorInfo("input.1", "float32", (None, 4, None)),)
RECURRENT = (TensorInfo("x", "float32", ("batch", "sequence")), TensorInfo("state", "float32", (2, "batch", 4)))
QUICK = Rules(max_rounds=12, time_limit_s=2.0)


@pytest.fixture
def swept(tmp_path):
    """Sweeps a model on samples of its own inputs."""

    def run(model, spec, backend, feeds, kind="model", runs=None, rules=QUICK):
        session = backend_named(backend).load(model, {})
        inputs = session.inputs
        session.close()
        save_samples(check_samples(from_feeds(feeds), inputs), tmp_path / "samples")
        side = Side(model.name, Load(backend, str(model), {}, str(tmp_path / "samples")), kind=kind)
        wanted = Sweep(spec, inputs, tmp_path, runs, rules)
        return sweep(LocalHost(tmp_path), side, wanted, ignore)

    return run


@pytest.fixture
def pictures():
    return [{"x": np.full((1, 3, 16, 16), k, np.float32)} for k in range(4)]


@pytest.fixture
def rows():
    return [{"x": np.full((1, 8), k, np.float32)} for k in range(4)]


def test_graph_levels_with_creation_and_totals(swept, conv_model, pictures):
    found = swept(conv_model, "graph_level", "onnxruntime-cpu", pictures, runs=50)
    assert [p.value for p in found.points] == ["none", "basic", "extended", "layout", "all"]
    assert (found.kind, found.name, found.backend) == ("option", "graph_level", "onnxruntime-cpu")
    for point in found.points:
        assert point.failure is None
        assert point.create_lowest_ms <= point.create_ms <= point.create_highest_ms
        total = point.create_ms + point.first_run_ms + 49 * point.p50_ms
        assert point.totals_ms == pytest.approx({50: total})
        assert point.memory.import_bytes > 10e6
    assert found.points[0].gain is None
    assert all(point.gain is None or point.gain.usable for point in found.points[1:])
    assert found.best_by_runs[0].from_runs == 1


@pytest.mark.timing
def test_an_option_that_matters(swept, null_model, rows):
    found = swept(null_model("m"), "latency_ms=6,2", "null", rows, rules=Rules(time_limit_s=15))
    slow, fast = found.points
    assert (slow.value, fast.value) == (6, 2)
    assert fast.gain.median == pytest.approx(3, rel=0.4)
    assert fast.verdict == "faster"
    assert set(fast.totals_ms) == {1, 100, 10_000}


@pytest.mark.timing
def test_batches_by_item(swept, null_model, rows):
    found = swept(null_model("m", latency_ms=3), "batch=1,4", "null", rows)
    one, four = found.points
    assert found.kind == "batch"
    assert four.item_ms == pytest.approx(four.p50_ms / 4)
    # The null model takes as long for four as for one.
    assert four.gain.median == pytest.approx(4, rel=0.4)
    assert four.throughput_per_s == pytest.approx(4 * one.throughput_per_s, rel=0.4)
    assert found.best_by_runs == ()
    told = msgspec.json.decode(msgspec.json.encode(found))
    assert [point["item_ms"] for point in told["points"]] == [one.item_ms, four.item_ms]


def test_a_value_that_fails_is_a_point_of_the_table(swept, tmp_path):
    """As with models whose batch is open by its name alone: inside, a shape is fixed."""
    ports = [[helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", 8])] for n in ("x", "y")]
    shape = numpy_helper.from_array(np.array([1, 8], np.int64), "shape")
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "shape"], ["y"])], "fixed", *ports, [shape])
    model = tmp_path / "fixed.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    found = swept(model, "batch=1,2", "onnxruntime-cpu", [{"x": np.ones((1, 8), np.float32)}])
    one, two = found.points
    assert one.failure is None
    assert one.item_ms > 0
    assert "Reshape" in two.failure
    assert two.p50_ms is None


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("graph_levle", "'graph_levle' is neither an option of onnxruntime-cpu nor an open axis", "graph_level"),
        ("graph_level=none,al", "must be one of none, basic", "Did you mean 'all'"),
        ("inter_threads", "has no list of values to try", "inter_threads=VALUE"),
        ("batch=1,two", "'two' is not a size", "batch=16,64"),
        ("batch=1,1", "names 1 twice", "once"),
        ("batch=", "is not a sweep", "--sweep"),
        ("x.2=8", "fixes axis 2 of its input 'x' to 16", "batch"),
        ("sequence=8", "No input axis has the name of a sequence", "batch"),
    ],
)
def test_what_cannot_be_swept_is_said_before_anything_runs(swept, conv_model, pictures, spec, message, hint):
    with pytest.raises((UsageError, ModelError)) as raised:
        swept(conv_model, spec, "onnxruntime-cpu", pictures)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_openvino_has_no_graph_levels(swept, conv_model, pictures):
    pytest.importorskip("openvino")
    with pytest.raises(UsageError, match="openvino-cpu has no graph levels") as raised:
        swept(conv_model, "graph_level", "openvino-cpu", pictures)
    assert "performance_hint" in raised.value.hint


def test_a_bundle_keeps_its_options(swept, conv_model, pictures):
    with pytest.raises(UsageError, match="it was proved with"):
        swept(conv_model, "threads=1,2", "onnxruntime-cpu", pictures, kind="bundle")


@pytest.mark.parametrize(
    ("name", "inputs", "places", "is_batch"),
    [
        ("batch", TEXT, (("ids", 0), ("mask", 0)), True),
        ("seq", TEXT, (("ids", 1), ("mask", 1)), False),
        ("sequence", TEXT, (("ids", 1), ("mask", 1)), False),
        ("mask.1", TEXT, (("ids", 1), ("mask", 1)), False),
        ("batch", OPEN, (("input.1", 0),), True),
        ("input.1.2", OPEN, (("input.1", 2),), False),
        ("batch", RECURRENT, (("x", 0), ("state", 1)), True),
    ],
)
def test_a_name_means_every_place_of_its_size(name, inputs, places, is_batch):
    found = find_axis(name, inputs)
    assert (found.places, found.is_batch) == (places, is_batch)


def test_axes_that_are_not_open():
    with pytest.raises(ModelError, match=r"fixes its batch: its input 'x' is \[1, 3, 8, 8\]"):
        find_axis("batch", FIXED)
    with pytest.raises(ModelError, match="fixes axis 3 of its input 'x' to 8"):
        find_axis("x.3", FIXED)
    assert find_axis("nothing", TEXT) is None


def test_a_batch_is_made_of_different_samples(tmp_path):
    feeds = [{"x": np.full((1, 2), k, np.float32), "state": np.full((2, 1, 4), k, np.float32)} for k in range(3)]
    save_samples(check_samples(from_feeds(feeds), RECURRENT), tmp_path / "samples")
    folder = resized(tmp_path / "samples", find_axis("batch", RECURRENT), 4, RECURRENT, tmp_path)
    made = open_samples(folder)
    assert len(made) == 3
    assert made.feeds(1)["x"][:, 0].tolist() == [1, 2, 0, 1]
    assert made.feeds(0)["state"].shape == (2, 4, 4)
    assert made.feeds(0)["state"][1, :, 0].tolist() == [0, 1, 2, 0]


def test_other_axes_are_cropped_and_repeated(tmp_path):
    feeds = [{"ids": np.arange(5, dtype=np.int64)[None], "mask": np.ones((1, 5), np.int64)}]
    save_samples(check_samples(from_feeds(feeds), TEXT), tmp_path / "samples")
    for size, row in ((3, [0, 1, 2]), (7, [0, 1, 2, 3, 4, 0, 1])):
        folder = resized(tmp_path / "samples", find_axis("seq", TEXT), size, TEXT, tmp_path)
        assert open_samples(folder).feeds(0)["ids"].tolist() == [row]
        assert open_samples(folder).feeds(0)["mask"].shape == (1, size)


def point(value, create_ms, p50_ms):
    return SweepPoint(value, create_ms=create_ms, first_run_ms=p50_ms, p50_ms=p50_ms)


def test_which_value_is_best_for_how_many_runs():
    points = [point("none", 5, 2.0), point("basic", 8, 1.5), point("extended", 20, 1.49), point("all", 30, 1.0)]
    found = best_by_runs(points)
    # Six runs make up for 3 ms more of creation, 44 for the next 22; 1.49 ms is as good as 1.5.
    assert [(s.from_runs, s.value) for s in found] == [(1, "none"), (7, "basic"), (45, "all")]
    for before, after in pairwise(found):
        totals = {p.value: p.create_ms + after.from_runs * p.p50_ms for p in points}
        assert totals[after.value] <= totals[before.value]
    assert best_by_runs([SweepPoint("a", failure="crashed")]) == ()
    assert [s.value for s in best_by_runs([point("slow", 9, 9.0), point("quick", 1, 1.0)])] == ["quick"]
