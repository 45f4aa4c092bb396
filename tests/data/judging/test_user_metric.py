import numpy as np
import pytest

from edgeopt.data.judging.metric import stacked
from edgeopt.data.judging.metrics import metric_named
from edgeopt.errors import EdgeoptError, InputError, UsageError

OUTPUTS = [{"y": np.array([[k, 1.0]], np.float32)} for k in range(10)]


@pytest.fixture
def metric(tmp_path):
    """Writes a file with this text and gives its function `score` as a metric."""

    def write(text, function="score"):
        file = tmp_path / "mine.py"
        file.write_text(text)
        return metric_named(f"{file}:{function}")

    return write


def test_it_gets_arrays_with_samples_first(metric):
    mine = metric(
        "def score(outputs, reference, labels):\n"
        "    assert outputs['y'].shape == reference['y'].shape == (len(labels), 2)\n"
        "    return float((outputs['y'][:, 0] == labels).mean())\n"
    )
    found = mine.judge(OUTPUTS, OUTPUTS, np.array([0, 1, 2, 3, 4, 5, 6, 7, 9, 9]))
    assert found.value == pytest.approx(0.9)
    assert found.source == pytest.approx(0.9)
    assert found.drop == 0
    assert 0.5 < found.low < 0.9


def test_a_value_for_each_sample_is_averaged_and_resampled(metric):
    mine = metric("def score(outputs, reference, labels):\n    return outputs['y'][:, 0]\n")
    found = mine.judge(OUTPUTS, OUTPUTS, None)
    assert found.value == pytest.approx(4.5)
    assert 2 < found.low < 4.5


def test_less_is_better_where_the_function_says_so(metric):
    mine = metric(
        "def score(outputs, reference, labels):\n    return abs(outputs['y'] - reference['y']).mean(axis=1)\n"
        "score.smaller_is_better = True\n"
    )
    worse = [{"y": run["y"] + (k % 3)} for k, run in enumerate(OUTPUTS)]
    found = mine.judge(worse, OUTPUTS, None)
    assert found.value < found.low
    assert found.drop == pytest.approx(found.value)
    assert found.drop_high >= found.drop


def test_a_module_is_found_beside_where_the_command_was_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_metric_of_mine.py").write_text("def score(outputs, reference, labels):\n    return 1\n")
    assert metric_named("a_metric_of_mine:score").judge(OUTPUTS, OUTPUTS, None).value == 1


def test_outputs_without_a_batch_axis_get_one_and_those_of_many_shapes_stay_a_list():
    assert stacked([{"y": np.zeros(3)}] * 4)["y"].shape == (4, 3)
    assert stacked([{"y": np.zeros((1, 3))}] * 4)["y"].shape == (4, 3)
    assert stacked([{"y": np.zeros((2, 3))}] * 4)["y"].shape == (4, 2, 3)
    assert len(stacked([{"y": np.zeros((1, 3))}, {"y": np.zeros((1, 5))}])["y"]) == 2


SCORE = "def score(outputs, reference, labels):\n"

WRONG = (
    (SCORE + "    return outputs['z']\n", r"failed in line 2 of mine.py: KeyError: 'z'"),
    (SCORE + "    return float('nan')\n", "returned NaN or infinity"),
    (SCORE + "    return 'good'\n", "returned str, not a number"),
    (SCORE + "    return None\n", "returned NoneType, not a number"),
    (SCORE + "    return [1, 2, 3]\n", r"returned an array of shape \[3\] for 10 samples"),
)


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_a_function_can_do_wrong_is_said(metric, text, said):
    mine = metric(text)
    with pytest.raises(InputError, match=said) as raised:
        mine.judge(OUTPUTS, OUTPUTS, None)
    assert raised.value.hint


UNUSABLE = (
    ("def score(outputs, reference):\n    return 1\n", UsageError, "does not take"),
    ("x = 1\n", UsageError, "no function 'score'"),
    ("score = 1\n", UsageError, "no function 'score'"),
    ("import no_such_module\n", UsageError, "cannot be imported: No module named 'no_such_module'"),
    ("def score(:\n", InputError, "SyntaxError"),
    ("1 / 0\n", InputError, "failed in line 1 of mine.py: ZeroDivisionError"),
)


@pytest.mark.parametrize(("text", "kind", "said"), UNUSABLE)
def test_what_is_no_metric_is_said_before_any_work(metric, text, kind, said):
    with pytest.raises(kind, match=said):
        metric(text)


@pytest.mark.parametrize("name", ["no/such/file.py:score", "no_such_module:score", "not a module:score", ":score"])
def test_a_place_without_a_metric_is_a_sentence(name):
    with pytest.raises(EdgeoptError, match="metric"):
        metric_named(name)


def test_a_slow_function_is_not_called_hundreds_of_times(metric):
    mine = metric(
        "import time\ncalls = []\n" + SCORE + "    calls.append(1)\n    time.sleep(0.06)\n    return len(calls)\n"
    )
    found = mine.judge(OUTPUTS, OUTPUTS, None)
    assert found.value == found.low == 1
    assert (found.high, found.drop_low, found.drop_high) == (None, None, None)
