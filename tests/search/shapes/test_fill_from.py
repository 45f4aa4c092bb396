import dataclasses
import math

import pytest

from edgeopt.data.samples import Samples
from edgeopt.measure.host import LocalHost
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.ground import Ground
from edgeopt.search.shapes.filling import gaps_of, least_filled, may_be_settled, said_of, settle_filling
from edgeopt.search.shapes.sized import Dimension, Shaped
from tests.conftest import seeded, write_onnx

SEQ = Dimension("seq", (1, 8, 9, 32), 8, {"x": (1,)})


def test_each_gap_is_tried_where_most_is_filled_up_and_half_way():
    assert [(gap.size, gap.bucket) for gap in gaps_of([SEQ])] == [(2, 8), (4, 8), (10, 32), (20, 32)]


@pytest.mark.parametrize(
    ("paying", "least"),
    [
        ({2, 4, 10, 20}, (1, 2, 9, 10)),
        ({4, 20}, (1, 4, 9, 20)),
        ({2, 20}, (1, 2, 9, 20)),  # what pays at two pays at four
        (set(), (1, 8, 9, 32)),
    ],
)
def test_inputs_are_filled_up_from_where_it_pays(paying, least):
    assert least_filled(SEQ, {gap for gap in gaps_of([SEQ]) if gap.size in paying}) == least


def test_what_is_left_to_open_shapes_is_said():
    assert "padded from 4 to 8, 20 to 32; others run with open shapes" in said_of(SEQ, (1, 4, 9, 20))
    assert "no inputs are padded" in said_of(SEQ, (1, 8, 9, 32))


@pytest.mark.timing
def test_work_that_grows_with_the_size_is_not_filled_up_to_a_hundredfold(tmp_path):
    pytest.importorskip("openvino")
    nodes = [("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["y"], {})]
    shapes = {"x": ["batch", "seq", 64]}, {"y": ["batch", "seq", 512]}
    model = write_onnx(tmp_path / "wide.onnx", nodes, {"w": seeded(64, 512)}, *shapes)
    wide = Dimension("seq", (8, 2048), 8, {"x": (1,)})
    samples = Samples({"x": seeded(4, 1, 8, 64)}, {"x": 3})
    shaped = Shaped((wide,), samples, samples, tmp_path, cuts={"seq": {"y": (1,)}})
    ground = Ground(LocalHost(tmp_path), tmp_path, tmp_path)
    candidate = Candidate("source", "openvino-cpu", {"shapes": {"x": [1, 8, 64]}, "precision": "f32"})
    assert may_be_settled(shaped)
    least = settle_filling(ground, shaped, candidate, model, math.inf)
    assert least["seq"][1] > 9  # nine places are not padded to 2048
    settled = dataclasses.replace(shaped, fill_from=least)
    assert settled.options["bucket_fill"] == {"seq": list(least["seq"])}
    assert not may_be_settled(settled)


def test_what_was_not_measured_is_filled_up_by_a_third_at_most(tmp_path):
    samples = Samples({"x": seeded(4, 1, 8, 64)}, {"x": 3})
    shaped = Shaped((SEQ,), samples, samples, tmp_path, cuts={"seq": {"y": (1,)}})
    ground, candidate = Ground(LocalHost(tmp_path), tmp_path, tmp_path), Candidate("source", "openvino-cpu")
    assert settle_filling(ground, shaped, candidate, tmp_path, 0.0) == {"seq": (1, 8, 9, 32)}
    even = Dimension("seq", (4, 8), 8, {"x": (1,)})
    shaped = Shaped((even,), samples, samples, tmp_path, cuts={"seq": {"y": (1,)}})
    assert settle_filling(ground, shaped, candidate, tmp_path, 0.0) == {"seq": (4, 6)}
