from pathlib import Path

import pytest

from edgeopt.commands.quantize import CalibrationOptions, QuantizeOptions, request_from
from edgeopt.errors import UsageError

MODEL = Path("model.onnx")


def test_a_request_without_wishes_is_a_plan_at_30_db():
    request = request_from(QuantizeOptions(MODEL))
    assert (request.method, request.goal.floor) == ("plan", 30.0)


def test_no_floor_leaves_no_goal():
    request = request_from(QuantizeOptions(MODEL, method="int8", no_floor=True))
    assert request.goal.is_open
    assert request.shown_goal is None
    assert (
        request_from(QuantizeOptions(MODEL, method="int8")).shown_goal == request_from(QuantizeOptions(MODEL)).goal
    )


WRONG = (
    ({"calibration": "entropie"}, "no method of calibration", "entropy"),
    ({"check_targets": "cpu-avx3"}, "no target 'cpu-avx3'", "cpu-avx"),
    ({"options": ("threads=1",)}, "--option needs", "--backend"),
    ({"options": ('shapes={"x": [1]}',), "backend": "openvino-cpu"}, "a single value", "--shape"),
    ({"floor": "aggressive"}, "with a task metric", "balanced"),
    ({"no_floor": True}, "A plan needs a goal", "--method int8"),
    ({"no_floor": True, "method": "int8", "floor": "20dB"}, "--no-floor and --floor exclude", "one of them"),
    ({"no_floor": True, "method": "int8", "metric": "top1"}, "--no-floor and --metric exclude", "one of them"),
)


@pytest.mark.parametrize(("wishes", "said", "hint"), WRONG)
def test_wrong_wishes_are_said_before_any_work(wishes, said, hint):
    with pytest.raises(UsageError, match=said) as raised:
        request_from(QuantizeOptions(MODEL, **wishes))
    assert hint in raised.value.hint


def test_what_was_written_is_read():
    asked = QuantizeOptions(
        MODEL,
        options=("threads=2",),
        backend="null",
        shape=("x=1x3",),
        check_targets="cpu-avx2, generic-cpu",
    )
    request = request_from(asked)
    assert (request.options, request.shapes) == ({"threads": 2}, {"x": (1, 3)})
    assert request.check_targets == ("cpu-avx2", "generic-cpu")


def test_comparing_calibrations_is_a_request_of_its_own_kind():
    request = request_from(CalibrationOptions(MODEL, Path("d.npz"), samples=20))
    assert request.compare_calibrations
    assert (request.data, request.samples) == (Path("d.npz"), 20)
