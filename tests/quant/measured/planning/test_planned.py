import numpy as np
import pytest

from edgeopt.data.judging.goals import goal_from
from edgeopt.quant.measured.given import Runs
from edgeopt.quant.measured.planning.entry import write_entry
from edgeopt.quant.measured.planning.planned import proven
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.work import prepare
from edgeopt.quant.records import Plan, Point
from tests.families.stack import ROWS, WIDTH

DARING = {"MatMul_0": "int8", "MatMul_2": "int8-dynamic"}
CAREFUL = {"MatMul_2": "int8-dynamic"}


@pytest.fixture
def work(stack_model, tmp_path):
    """Of samples whose last ones, which prove, are ten times as large as those that calibrate."""
    x = np.random.default_rng(7).standard_normal((24, ROWS, WIDTH)).astype(np.float32)
    x[18:] *= 10
    data = tmp_path / "data.npz"
    np.savez(data, x=x)
    request = QuantizeRequest(stack_model, data=data, backend="onnxruntime-cpu", goal=goal_from(None, "25dB"))
    told = []
    with Runs() as runs:
        work = prepare(request, tmp_path, runs, told.append)
        work.study.calibrated()
        yield work, told


def entry_of(work, choices, points):
    entry = write_entry(work.study, work.courses[0], choices, work.folder / "plan.onnx")
    chosen = Point(choices, 1.0, 30.0)
    entry.plan = Plan("onnxruntime-cpu", {}, 25.0, chosen, (*points, chosen), ())
    entry.points = points
    return entry


def test_a_plan_that_fails_on_unseen_samples_steps_back_to_the_next_more_exact_one(work):
    work, told = work
    careful = Point(CAREFUL, 2.0, 40.0)

    found = proven(work, entry_of(work, DARING, [careful, Point({}, 3.0, 200.0)]))

    assert found.choices == CAREFUL
    assert found.plan.chosen == careful
    assert found.proof.steps_back == 1
    assert found.proof.low_db >= 25
    assert any("one step back" in getattr(event, "message", "") for event in told)


def test_where_no_point_holds_the_model_stays_float(work):
    work, _ = work
    found = proven(work, entry_of(work, DARING, []))

    assert found.is_float
    assert found.path == work.study.path
    assert found.proof.low_db < 25, "the proof of the plan that failed is kept, to be shown"
