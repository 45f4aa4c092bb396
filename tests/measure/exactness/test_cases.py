from contextlib import closing

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.regimes import DistributionCase
from edgeopt.errors import EdgeoptError, ModelError
from edgeopt.measure.exactness.cases import Answered, Ways, answered, ask_in_other_ways, first_difference, run_each
from edgeopt.measure.exactness.runtimes import OpenedModel

pytest.importorskip("onnxruntime", reason="cases are run in ONNX Runtime")
X = np.ones((1, 4), np.float32)
TEXT = "g (float[1,4] x) => (float[1,4] y) { y = Neg(x) }"


@pytest.fixture
def backend():
    return backend_named("onnxruntime-cpu")


def test_a_sample_that_fails_does_not_take_the_others_along(write_model, backend):
    path = write_model(TEXT)
    first, second, third = run_each(path, [{"x": X}, {"x": np.ones((1, 5), np.float32)}, {"x": 2 * X}], backend)
    assert np.array_equal(first["y"], -X)
    assert isinstance(second, EdgeoptError)
    assert np.array_equal(third["y"], -2 * X)


def test_what_the_time_does_not_reach_is_left_out(write_model, backend):
    cases = [
        DistributionCase("quiet", {"x": X}),
        DistributionCase("quiet", {"x": 2 * X}),
        DistributionCase("loud", {"x": X}),
    ]
    with closing(OpenedModel(write_model(TEXT), backend)) as opened:
        found, left = answered(opened, cases, limit_s=-1)
    assert (found, [(one.regime, one.kind) for one in left]) == ([], [("quiet", "no-time"), ("loud", "no-time")])


def test_of_a_regime_what_the_source_answers_with_numbers_counts(write_model, backend):
    path = write_model("g (float[1,4] x) => (float[1,4] y) { y = Exp(x) }")
    cases = [
        DistributionCase("ends", {"x": 1e30 * X}, finite_only=True),
        DistributionCase("ends", {"x": X}, finite_only=True),
    ]
    with closing(OpenedModel(path, backend)) as opened:
        found, left = answered(opened, cases)
        nothing, alone = answered(opened, cases[:1])
    assert [one.case.feeds["x"][0, 0] for one in found] == [1]
    assert left == []
    assert (nothing, [(one.regime, one.kind) for one in alone]) == ([], [("ends", "not-finite")])


def test_a_source_that_cannot_be_asked_in_another_way_excuses_nothing(write_model, backend, tmp_path):
    path = write_model(TEXT)
    nothing = tmp_path / "nothing.onnx"
    nothing.write_bytes(b"no model")
    ways = Ways(backend, path, lambda: nothing, lambda _: nothing)
    one = Answered(DistributionCase("ends", {"x": X}, finite_only=True), {"y": -X})

    def ask(asked, thoroughly):
        ask_in_other_ways(ways, asked, thoroughly)

    found = first_difference([one], [{"y": X}], ask)
    assert found is not None
    assert "beyond rounding" in found[1]
    assert len(one.others) == 1  # the source itself, without the runtime's optimizer
    assert not one.overflows


def test_nobody_asks_further_where_answers_are_close():
    def ask(asked, thoroughly):
        raise AssertionError(asked)

    one = Answered(DistributionCase("quiet", {}), {"y": X})
    assert first_difference([one], [{"y": X * np.float32(1 + 1e-6)}], ask) is None


def test_a_model_that_fails_where_the_source_does_not_is_wrong():
    one = Answered(DistributionCase("quiet", {}), {"y": X})
    assert first_difference([one], [ModelError("It broke.")], lambda *_: None) == (one, "It broke")


def test_of_many_doubtful_samples_the_farthest_are_asked_about_and_all_regimes():
    asked = []

    def ask(some, thoroughly):
        asked.append([float(one.case.feeds["x"]) for one in some])
        for one in some:  # rounding explains all but the farthest
            one.others.append({"y": one.answer["y"] * np.float32(1.01)})

    regimes = ["", "", "", "", "", "", "quiet"]
    known = [Answered(DistributionCase(name, {"x": k}), {"y": X}) for k, name in enumerate(regimes)]
    off = (0.001, 0.004, 0.002, 0.5, 0.003, 0.0015, 0.002)
    found = first_difference(known, [{"y": X * np.float32(1 + each)} for each in off], ask)
    assert asked[0] == [3, 1, 4, 2, 6]
    assert found is not None
    assert found[0] is known[3]
