import msgspec
import numpy as np
import pytest

from edgeopt.data.samples import Samples
from edgeopt.events import Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load
from edgeopt.quant.layers import find_layers
from edgeopt.quant.sensitivity import measure as module
from edgeopt.quant.sensitivity.measure import sensitivities
from edgeopt.quant.sensitivity.switchboard import Switchboard
from tests.conftest import seeded, write_onnx


@pytest.fixture(scope="module")
def board(varied, layers, contexts, fitting):
    context = contexts["openvino-cpu"]
    with Switchboard(varied, layers, fitting(context, "int8", "w8", "w4"), context) as made:
        yield made


@pytest.fixture(scope="module")
def reference(board, samples):
    return board.run_all({}, samples)


@pytest.fixture(scope="module")
def found(board, samples):
    return sensitivities(board, samples)


def test_each_is_the_difference_that_one_layer_makes(board, samples, reference, found):
    assert tuple((each.layer, each.form) for each in found) == board.pairs
    for each in found:
        wanted = compare_outputs(reference, board.run_all({each.layer: each.form}, samples))
        assert each.measured
        assert each.snr_db == pytest.approx(wanted.snr_db, abs=0.01)
        powers = [sum(output.noise_power) / sum(output.signal_power) for output in wanted.outputs]
        assert each.noise == pytest.approx(powers, rel=1e-3, abs=1e-12)
        assert each.local_db is not None


def test_a_layer_behind_an_output_makes_no_noise_there(found, layers):
    behind = next(layer.name for layer in layers if layer.weight == "w5")
    int8 = next(each for each in found if (each.layer, each.form) == (behind, "int8"))
    assert int8.noise[0] == 0
    assert int8.noise[1] > 0


def test_the_noise_of_layers_together_is_near_the_sum_of_theirs_alone(board, samples, reference, found):
    int8 = [each for each in found if each.form == "int8"]
    together = board.run_all({each.layer: "int8" for each in int8}, samples)
    for output, parts in zip(
        compare_outputs(reference, together).outputs, zip(*(each.noise for each in int8), strict=True), strict=True
    ):
        assert output.snr_db == pytest.approx(-10 * np.log10(sum(parts)), abs=3)


def test_with_no_time_only_the_noisiest_form_is_run_and_the_others_are_estimated(board, samples, found):
    quick = sensitivities(board, samples, limit_s=0.0)
    assert [each.form for each in quick if not each.measured]
    by_layer = {each.layer: each for each in quick if each.measured}
    assert by_layer.keys() == board.forms.keys()
    off = [abs(estimated.snr_db - exact.snr_db) for estimated, exact in zip(quick, found, strict=True)]
    assert np.median(off) < 3
    assert max(off) < 15


def test_far_from_the_floor_few_samples_do(board, samples, reference, monkeypatch):
    runs = []
    run = Switchboard.run

    def counted(self, choices, feeds):
        runs.append(choices)
        return run(self, choices, feeds)

    monkeypatch.setattr(Switchboard, "run", counted)
    counts = {}
    for floor_db in (None, 20.0, 120.0):
        runs.clear()
        sensitivities(board, samples, reference, floor_db=floor_db)
        counts[floor_db] = len(runs)
    assert counts[120.0] < counts[20.0] < counts[None]
    assert counts[120.0] == 2 * len(board.layers)


def test_progress_is_told_with_the_time_left(board, samples):
    told = []
    sensitivities(board, samples, emit=told.append)
    assert all(isinstance(each, Progress) and each.phase == module.PHASE for each in told)
    assert told[-1].done == told[-1].total
    assert all(each.time_left_s >= 0 for each in told)


def test_what_cannot_be_written_as_a_number_is_as_bad_as_it_gets(tmp_path, contexts):
    """Rounding makes a factor zero, which is then divided by."""
    nodes = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Div", ["one", "m"], ["y"], {}),
    ]
    weight = np.full((8, 8), 1e-4, np.float32)
    weight[0] = 1.0
    path = write_onnx(
        tmp_path / "odd.onnx", nodes, {"w": weight, "one": np.float32(1)}, {"x": (1, 8)}, {"y": (1, 8)}
    )
    x = np.zeros((4, 8), np.float32)
    x[:, 1:] = np.abs(seeded(4, 7)) + 1
    model = load(path).ir
    layers = find_layers(model, {"x": (1, 8)})
    context = contexts["openvino-cpu"]
    with Switchboard(model, layers, {layers[0].name: ("w4",)}, context) as board:
        (found,) = sensitivities(board, Samples({"x": x}, {"x": 2}))
    assert found.snr_db == -200
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


def test_without_layers_there_is_nothing_to_tell(varied, layers, contexts, samples):
    with Switchboard(varied, layers, {}, contexts["openvino-cpu"]) as board:
        assert sensitivities(board, samples) == ()
