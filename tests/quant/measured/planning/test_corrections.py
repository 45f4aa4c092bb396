import numpy as np
import pytest

from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load
from edgeopt.quant.measured.planning.corrections import Corrections
from edgeopt.quant.measured.runs import Runs
from edgeopt.quant.measured.study import begin
from edgeopt.quant.settings import QuantSettings
from tests.conftest import seeded, write_onnx
from tests.families.stack import answers_of

WIDTH = 128
ALL = dict.fromkeys(("MatMul_0", "MatMul_3"), "w4")


@pytest.fixture(scope="module")
def related(tmp_path_factory):
    """Products with biases, and inputs that go together, as those of real models do."""
    folder = tmp_path_factory.mktemp("related")
    nodes = [
        ("MatMul", ["x", "first"], ["a"], {}),
        ("Add", ["a", "shift"], ["b"], {}),
        ("Relu", ["b"], ["c"], {}),
        ("MatMul", ["c", "second"], ["d"], {}),
        ("Add", ["d", "shift"], ["y"], {}),
    ]
    weights = {
        "first": seeded(WIDTH, WIDTH),
        "second": seeded(WIDTH, WIDTH, seed=1),
        "shift": seeded(WIDTH, seed=2),
    }
    model = write_onnx(folder / "related.onnx", nodes, weights, {"x": [8, WIDTH]}, {"y": [8, WIDTH]})
    random = np.random.default_rng(0)
    mixed = random.standard_normal((24, 8, 16)) @ random.standard_normal((16, WIDTH)) + 1
    np.savez(folder / "data.npz", x=mixed.astype(np.float32))
    return model, answers_of(model, folder / "data.npz")


@pytest.fixture
def study(related, tmp_path):
    model, (given, reference) = related
    return begin(load(model).ir, given, reference, QuantSettings(), tmp_path / "study")


@pytest.fixture
def reached(study):
    """What all layers reach with some corrections, on samples that corrected nothing."""

    def run(**wanted):
        study.corrections = Corrections(**wanted)
        path = study.folder / "corrected.onnx"
        changes = study.save_written(ALL, "null", path).changes
        given = study.given
        with Runs() as runs:
            got = runs.outputs(path, "onnxruntime-cpu", {}, given.feeds(given.plan))
        return compare_outputs(study.reference_of(given.plan), got).snr_db, changes

    return run


def test_rounding_on_request_leaves_less_error(reached):
    plain, _ = reached()
    rounded, changes = reached(rounding=True)

    assert rounded > plain + 3
    assert any("round" in change.what for change in changes)


def test_biases_are_corrected_on_request(reached):
    plain, _ = reached()
    corrected, changes = reached(bias=True)

    assert corrected > plain
    assert any("bias" in change.what for change in changes)


def test_weights_are_rounded_once_for_a_form(reached, study):
    reached(rounding=True)
    (known,) = study.corrections._rounded.values()
    before = {name: id(array) for name, array in known.items()}
    study.written({"MatMul_0": "w4"}, "null")

    assert {name: id(array) for name, array in known.items()} == before
