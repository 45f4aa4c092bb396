import numpy as np
import pytest

from edgeopt.data.samples import Samples
from edgeopt.quant.compare_calibrations import compare_calibrations
from edgeopt.quant.ranges import METHODS
from edgeopt.quant.records import QuantSettings


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
