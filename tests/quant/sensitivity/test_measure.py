import dataclasses
import gc
import math

import msgspec
import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.events import Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.files.saving import save
from edgeopt.graph.model import load
from edgeopt.quant.layers import find_layers
from edgeopt.quant.records import FLOAT
from edgeopt.quant.schemes import scheme_named
from edgeopt.quant.sensitivity import measure as module
from edgeopt.quant.sensitivity.measure import local_noise, sensitivities
from edgeopt.quant.sensitivity.switchboard import GATES, GatedModel, with_switches
from edgeopt.quant.write import write
from tests.conftest import seeded, write_onnx


@pytest.fixture(scope="module")
def board(varied, layers, contexts, fitting):
    context = contexts["openvino-cpu"]
    with GatedModel(varied, layers, fitting(context, "int8", "w8", "w4"), context) as made:
        yield made


@pytest.fixture(scope="module")
def reference(board, samples):
    return board.run_all({}, samples)


@pytest.fixture(scope="module")
def found(board, samples):
    return sensitivities(board, samples)


def test_each_is_the_difference_that_one_layer_makes(board, samples, reference, found):
    assert tuple((each.layer, each.scheme) for each in found) == board.pairs
    for each in found:
        wanted = compare_outputs(reference, board.run_all({each.layer: each.scheme}, samples))
        assert each.measured
        assert each.snr_db == pytest.approx(wanted.snr_db, abs=0.01)
        powers = [sum(output.noise_power) / sum(output.signal_power) for output in wanted.outputs]
        assert each.noise == pytest.approx(powers, rel=1e-3, abs=1e-12)
        assert each.local_db is not None


def test_a_layer_behind_an_output_makes_no_noise_there(found, layers):
    behind = next(layer.name for layer in layers if layer.weight == "w5")
    int8 = next(each for each in found if (each.layer, each.scheme) == (behind, "int8"))
    assert int8.noise[0] == 0
    assert int8.noise[1] > 0


def test_the_noise_of_layers_together_is_near_the_sum_of_theirs_alone(board, samples, reference, found):
    int8 = [each for each in found if each.scheme == "int8"]
    together = board.run_all({each.layer: "int8" for each in int8}, samples)
    for output, parts in zip(
        compare_outputs(reference, together).outputs, zip(*(each.noise for each in int8), strict=True), strict=True
    ):
        assert output.snr_db == pytest.approx(-10 * np.log10(sum(parts)), abs=3)


def test_with_no_time_only_the_noisiest_form_is_run_and_the_others_are_estimated(board, samples, found):
    quick = sensitivities(board, samples, limit_s=0.0)
    assert [each.scheme for each in quick if not each.measured]
    by_layer = {each.layer: each for each in quick if each.measured}
    assert by_layer.keys() == board.schemes.keys()
    off = [abs(estimated.snr_db - exact.snr_db) for estimated, exact in zip(quick, found, strict=True)]
    assert np.median(off) < 3
    assert max(off) < 15


def test_far_from_the_floor_few_samples_do(board, samples, reference, monkeypatch):
    runs = []
    run = GatedModel.run

    def counted(self, choices, feeds):
        runs.append(choices)
        return run(self, choices, feeds)

    monkeypatch.setattr(GatedModel, "run", counted)
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
    with GatedModel(model, layers, {layers[0].name: ("w4",)}, context) as board:
        (found,) = sensitivities(board, Samples({"x": x}, {"x": 2}))
    assert found.snr_db == -200
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


def test_without_layers_there_is_nothing_to_tell(varied, layers, contexts, samples):
    with GatedModel(varied, layers, {}, contexts["openvino-cpu"]) as board:
        assert sensitivities(board, samples) == ()


def test_it_is_what_rounding_does_to_one_product(varied, layers, contexts, samples):
    """Worked out by hand for the first convolution, as a product of patches."""
    context, layer = contexts["openvino-cpu"], next(each for each in layers if each.weight == "w1")
    with GatedModel(varied, layers, {layer.name: ("int8",)}, context) as board:
        found = local_noise(board, samples)
    weight = varied.graph.initializers["w1"].const_value.numpy()
    scale = np.abs(weight).max(axis=(1, 2, 3), keepdims=True) / 127
    rounded = np.rint(weight / scale) * scale
    kept = context.ranges["x"]
    step = (kept.high - kept.low) / 255
    bias = varied.graph.initializers["b1"].const_value.numpy()[:, None]
    noise = signal = 0.0
    for k in range(len(samples)):
        x = samples.feeds(k)["x"]
        inexact = np.clip(np.rint(x / step), np.rint(kept.low / step), np.rint(kept.high / step)) * step
        exact = weight.reshape(8, -1) @ patches(x)
        noise += np.square(rounded.reshape(8, -1) @ patches(inexact) - exact).sum()
        signal += np.square(exact + bias).sum()
    assert found == {(layer.name, "int8"): pytest.approx(noise / signal, rel=0.02)}


def patches(x):
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return windows.transpose(0, 3, 4, 1, 2).reshape(4 * 9, -1)


def test_more_bits_leave_less_noise_in_every_layer(varied, layers, contexts, fitting, samples):
    context = contexts["openvino-cpu"]
    forms = {name: some for name, some in fitting(context, "w8", "w4").items() if len(some) > 1}
    assert forms
    with GatedModel(varied, layers, forms, context) as board:
        found = local_noise(board, samples)
    assert set(found) == {(name, form) for name in forms for form in ("w8", "w4")}
    assert all(0 < found[name, "w8"] < 0.1 * found[name, "w4"] < math.inf for name in forms)
    assert scheme_named("w8") in board.schemes[next(iter(forms))]


def test_shared_weights_are_one_layer_with_both_products(varied, layers, contexts, samples):
    layer = next(each for each in layers if each.weight == "shared")
    assert len(layer.nodes) == 2
    with GatedModel(varied, layers, {layer.name: ("int8",)}, contexts["openvino-cpu"]) as board:
        assert 1e-7 < local_noise(board, samples)[layer.name, "int8"] < 1e-2


def test_nothing_to_look_at(varied, layers, contexts, samples):
    with GatedModel(varied, layers, {}, contexts["openvino-cpu"]) as board:
        assert local_noise(board, samples) == {}


BACKENDS = ["onnxruntime-cpu", "openvino-cpu"]


def answers(path, samples):
    """Without the fusions that round otherwise than the simulation."""
    session = backend_named("onnxruntime-cpu").load(path, {"graph_level": "none"})
    try:
        return [session.run(samples.feeds(k)) for k in range(len(samples))]
    finally:
        session.close()


@pytest.fixture(scope="module")
def exact(varied_path, samples):
    return answers(varied_path, samples)


@pytest.fixture(scope="module", params=BACKENDS)
def switchboard_board(request, varied, layers, contexts, fitting):
    context = contexts[request.param]
    with GatedModel(varied, layers, fitting(context, "int8", "w8"), context) as made:
        yield made


def test_with_all_switches_off_it_is_the_float_model(switchboard_board, samples, exact):
    assert compare_outputs(exact, switchboard_board.run_all({}, samples)).snr_db > 120
    everything_named = {layer.name: FLOAT for layer in switchboard_board.layers}
    assert compare_outputs(exact, switchboard_board.run_all(everything_named, samples)).snr_db > 120


def test_it_foretells_what_the_written_model_answers(switchboard_board, varied, layers, samples, exact, tmp_path):
    chance = np.random.default_rng(4)
    for _ in range(4):
        forms = {name: some[chance.integers(len(some))].name for name, some in switchboard_board.schemes.items()}
        choices = {name: form for name, form in forms.items() if chance.random() < 0.6}
        save(write(varied, layers, choices, switchboard_board.context).model, tmp_path / "written.onnx")
        written = compare_outputs(exact, answers(tmp_path / "written.onnx", samples))
        foretold = compare_outputs(exact, switchboard_board.run_all(choices, samples))
        assert written.snr_db < 80
        assert foretold.snr_db == pytest.approx(written.snr_db, abs=1.5)


def test_every_switch_changes_something_of_its_own(switchboard_board, samples):
    feeds = samples.feeds(0)
    seen = {pair: switchboard_board.run(dict([pair]), feeds)["z"].tobytes() for pair in switchboard_board.pairs}
    seen["none", ""] = switchboard_board.run({}, feeds)["z"].tobytes()
    int8 = {pair: value for pair, value in seen.items() if pair[1] != "w8"}
    assert len(set(int8.values())) == len(int8)


def test_layers_with_a_reason_and_those_without_forms_have_no_switch(switchboard_board, layers):
    unfit = {layer.name for layer in layers if layer.reason}
    assert any("branch" in name for name in unfit)
    assert not unfit & switchboard_board.schemes.keys()
    assert switchboard_board.outputs == ("y", "z")


def test_weights_from_preparation_take_the_place_of_the_models_own(varied, layers, contexts, samples):
    context = contexts["openvino-cpu"]
    layer = next(each for each in layers if each.weight == "w5")
    changed = dataclasses.replace(context, weights={"w5": np.zeros((16, 10), np.float32)})
    with GatedModel(varied, layers, {layer.name: ("int8",)}, changed) as board:
        assert not board.run({layer.name: "int8"}, samples.feeds(0))["z"].any()
        assert board.run({}, samples.feeds(0))["z"].any()


def test_forms_that_round_weights_alike_share_them(varied, layers, contexts, fitting):
    context = contexts["onnxruntime-qnn"]

    def weight_bytes(*names):
        forms = {layer: tuple(map(scheme_named, some)) for layer, some in fitting(context, *names).items()}
        able = [layer for layer in layers if layer.name in forms]
        built = with_switches(varied, able, forms, context)
        return sum(value.const_value.nbytes for value in built.graph.initializers.values())

    assert fitting(context, "a16w8")
    assert weight_bytes("int8", "a16w8") < 1.1 * weight_bytes("int8")


def test_the_model_that_it_is_made_from_stays_as_it_is(varied, layers, contexts, fitting, tmp_path):
    save(varied, tmp_path / "before.onnx")
    context = contexts["onnxruntime-cpu"]
    GatedModel(varied, layers, fitting(context, "int8"), context).close()
    gc.collect()
    save(varied, tmp_path / "after.onnx")
    assert (tmp_path / "before.onnx").read_bytes() == (tmp_path / "after.onnx").read_bytes()


def test_without_any_form_it_only_runs_the_model(varied, layers, contexts, samples, exact):
    with GatedModel(varied, layers, {}, contexts["onnxruntime-cpu"]) as board:
        assert board.pairs == ()
        assert compare_outputs(exact, board.run_all({}, samples)).snr_db > 120


def test_its_own_input_is_not_taken_for_one_of_the_model(switchboard_board, samples):
    assert GATES not in samples.feeds(0)
    with pytest.raises(KeyError):
        switchboard_board.run({"no such layer": "int8"}, samples.feeds(0))
