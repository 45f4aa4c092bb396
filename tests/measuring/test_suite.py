import pytest

from edgeopt.bench.report import Comparison
from edgeopt.bench.stats import Interval
from edgeopt.errors import InputError, ModelError, UsageError
from edgeopt.events import ignore
from edgeopt.measuring.request import Request
from edgeopt.measuring.sides import Settings
from edgeopt.measuring.suite import data_beside, models_in, suite


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
        ratio = Comparison("x", "y", Interval(middle, 0.9 * middle, 1.1 * middle, 30), "faster")
        # Of the other one too little was measured to say anything.
        return report({"x": 1.0, "z": 1.0, "y": 2.0}, comparisons=(ratio,))

    found = suite(folder, Request(against=("arena=off", "threads=1")), measure, ignore)
    assert [row.exit_code for row in found.models] == [0, 3, 0, 0]
    assert found.exit_code == 3
    (mean,) = found.means
    assert mean.against == "threads=1"
    assert mean.speedup.median == pytest.approx(4 ** (1 / 3))
    assert mean.speedup.low < mean.speedup.median < mean.speedup.high
    # Errors of several models average out.
    assert mean.speedup.high / mean.speedup.low < 1.1 / 0.9


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Request("m.onnx"), UsageError),
        (Request(settings=Settings(threads=None)), InputError),
        (Request(baseline_command="python mine.py"), UsageError),
    ],
)
def test_what_makes_no_suite(tmp_path, request_, error):
    with pytest.raises(error) as raised:
        suite(tmp_path, request_, lambda *_: pytest.fail("nothing is to be measured"), ignore)
    assert raised.value.hint
