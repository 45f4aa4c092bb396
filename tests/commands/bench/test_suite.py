import io

import pytest
from rich.console import Console

from edgeopt.cli import bench_show
from edgeopt.commands.bench.request import Request
from edgeopt.commands.bench.suite import data_beside, models_in, suite
from edgeopt.errors import InputError, ModelError, Terminated, UsageError
from edgeopt.events import ignore
from edgeopt.measure.report import Comparison
from edgeopt.measure.stats import Interval
from edgeopt.views.terminal import write


@pytest.fixture
def folder(tmp_path, bundle):
    (tmp_path / "models").mkdir()
    for name in ("b.onnx", "a.onnx", "a.npz", "c.null.json", "c.npz", "notes.txt"):
        (tmp_path / "models" / name).write_bytes(b"")
    bundle.rename(tmp_path / "models" / "d.edgeopt")
    return tmp_path / "models"


def test_models_and_bundles_with_the_data_beside_them(folder):
    found = models_in(folder)
    assert [path.name for path in found] == ["a.onnx", "b.onnx", "c.null.json", "d.edgeopt"]
    assert [data.name if (data := data_beside(path)) else None for path in found] == ["a.npz", None, "c.npz", None]


def test_the_mean_over_the_models_that_ran(folder, report):
    ratios = {"a.onnx": 2.0, "c.null.json": 0.5, "d.edgeopt": 4.0}

    def measure(request, _emit):
        name = request.subject.rpartition("/")[2]
        if name not in ratios:
            raise ModelError("It is broken.", "Mend it.")
        middle = ratios[name]
        ratio = Comparison("x", "y", Interval(middle, 0.9 * middle, 1.1 * middle, 30, 0.997), "faster")
        # Of the other one too little was measured to say anything.
        return report({"x": 1.0, "z": 1.0, "y": 2.0}, comparisons=(ratio,))

    found = suite(folder, Request(against=("arena=off", "threads=1")), measure, ignore)
    assert [row.exit_code for row in found.models] == [0, 3, 0, 0]
    assert found.exit_code == 3
    (mean,) = found.means
    assert mean.against == "threads=1"
    assert mean.speedup.median == pytest.approx(4 ** (1 / 3))
    assert mean.speedup.low < mean.speedup.median < mean.speedup.high
    assert mean.speedup.confidence == 0.997
    # Errors of several models average out.
    assert mean.speedup.high / mean.speedup.low < 1.1 / 0.9


def test_models_with_too_few_rounds_are_left_out_by_name(folder, report):
    def measure(request, _emit):
        open_ended = not request.subject.endswith("a.onnx")
        ratio = None if open_ended else Interval(2.0, 1.9, 2.1, 30, 0.997)
        return report({"x": 1.0, "y": 2.0}, comparisons=(Comparison("x", "y", ratio, "faster"),))

    (mean,) = suite(folder, Request(against=("threads=1",)), measure, ignore).means
    assert (mean.speedup.rounds, mean.faster) == (1, 1)
    assert mean.left_out == ("b.onnx", "c.null.json", "d.edgeopt")
    out = io.StringIO()
    found = suite(folder, Request(against=("threads=1",)), measure, ignore)
    write(bench_show.suite(found), Console(file=out, width=200, highlight=False))
    said = " ".join(out.getvalue().split())
    assert "2.00x [1.90 2.10] (a 99.7 % interval) over 1 model" in said
    assert "left out, after too few rounds: b.onnx, c.null.json, d.edgeopt." in said
    (folder / "a.onnx").unlink()
    (mean,) = suite(folder, Request(against=("threads=1",)), measure, ignore).means
    assert mean.speedup is None


@pytest.mark.parametrize(
    ("stop", "code", "says"), [(KeyboardInterrupt, 130, "Ctrl-C"), (Terminated, 143, "SIGTERM")]
)
def test_a_suite_that_is_stopped_keeps_what_is_done(folder, report, stop, code, says):
    def measure(request, _emit):
        if request.subject.endswith("c.null.json"):
            raise stop
        return report({"x": 1.0})

    found = suite(folder, Request(), measure, ignore)
    assert found.exit_code == code
    assert [row.report is not None for row in found.models] == [True, True, False, False]
    assert all(says in row.failure for row in found.models[2:])
    for path in folder.glob("[ab].onnx"):
        path.unlink()
    with pytest.raises(stop):
        suite(folder, Request(), measure, ignore)


def test_whatever_goes_wrong_with_one_model_ends_nothing(folder, report):
    errors = {
        "a.onnx": OSError(28, "No space left on device", "report.json"),
        "c.null.json": ZeroDivisionError("division by zero"),
    }

    def measure(request, _emit):
        name = request.subject.rpartition("/")[2]
        if name in errors:
            raise errors[name]
        return report({"x": 1.0})

    found = suite(folder, Request(), measure, ignore)
    assert [row.exit_code for row in found.models] == [3, 0, 1, 0]
    assert found.models[0].failure == "The disk is full: there is no room for 'report.json'."
    assert "ZeroDivisionError: division by zero" in found.models[2].failure


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Request("m.onnx"), UsageError),
        (Request(), InputError),
        (Request(baseline_command="python mine.py"), UsageError),
    ],
)
def test_what_makes_no_suite(tmp_path, request_, error):
    with pytest.raises(error) as raised:
        suite(tmp_path, request_, lambda *_: pytest.fail("nothing is to be measured"), ignore)
    assert raised.value.hint
