import dataclasses
import gc

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.files.saving import save
from edgeopt.quant.forms import form_named
from edgeopt.quant.records import FLOAT
from edgeopt.quant.sensitivity.switchboard import GATES, Switchboard, with_switches
from edgeopt.quant.write import write

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
def board(request, varied, layers, contexts, fitting):
    context = contexts[request.param]
    with Switchboard(varied, layers, fitting(context, "int8", "w8"), context) as made:
        yield made


def test_with_all_switches_off_it_is_the_float_model(board, samples, exact):
    assert compare_outputs(exact, board.run_all({}, samples)).snr_db > 120
    everything_named = {layer.name: FLOAT for layer in board.layers}
    assert compare_outputs(exact, board.run_all(everything_named, samples)).snr_db > 120


def test_it_foretells_what_the_written_model_answers(board, varied, layers, samples, exact, tmp_path):
    chance = np.random.default_rng(4)
    for _ in range(4):
        forms = {name: some[chance.integers(len(some))].name for name, some in board.forms.items()}
        choices = {name: form for name, form in forms.items() if chance.random() < 0.6}
        save(write(varied, layers, choices, board.context).model, tmp_path / "written.onnx")
        written = compare_outputs(exact, answers(tmp_path / "written.onnx", samples))
        foretold = compare_outputs(exact, board.run_all(choices, samples))
        assert written.snr_db < 80
        assert foretold.snr_db == pytest.approx(written.snr_db, abs=1.5)


def test_every_switch_changes_something_of_its_own(board, samples):
    feeds = samples.feeds(0)
    seen = {pair: board.run(dict([pair]), feeds)["z"].tobytes() for pair in board.pairs}
    seen["none", ""] = board.run({}, feeds)["z"].tobytes()
    int8 = {pair: value for pair, value in seen.items() if pair[1] != "w8"}
    assert len(set(int8.values())) == len(int8)


def test_layers_with_a_reason_and_those_without_forms_have_no_switch(board, layers):
    unfit = {layer.name for layer in layers if layer.reason}
    assert any("branch" in name for name in unfit)
    assert not unfit & board.forms.keys()
    assert board.outputs == ("y", "z")


def test_weights_from_preparation_take_the_place_of_the_models_own(varied, layers, contexts, samples):
    context = contexts["openvino-cpu"]
    layer = next(each for each in layers if each.weight == "w5")
    changed = dataclasses.replace(context, weights={"w5": np.zeros((16, 10), np.float32)})
    with Switchboard(varied, layers, {layer.name: ("int8",)}, changed) as board:
        assert not board.run({layer.name: "int8"}, samples.feeds(0))["z"].any()
        assert board.run({}, samples.feeds(0))["z"].any()


def test_forms_that_round_weights_alike_share_them(varied, layers, contexts, fitting):
    context = contexts["onnxruntime-qnn"]

    def weight_bytes(*names):
        forms = {layer: tuple(map(form_named, some)) for layer, some in fitting(context, *names).items()}
        able = [layer for layer in layers if layer.name in forms]
        built = with_switches(varied, able, forms, context)
        return sum(value.const_value.nbytes for value in built.graph.initializers.values())

    assert fitting(context, "a16w8")
    assert weight_bytes("int8", "a16w8") < 1.1 * weight_bytes("int8")


def test_the_model_that_it_is_made_from_stays_as_it_is(varied, layers, contexts, fitting, tmp_path):
    save(varied, tmp_path / "before.onnx")
    context = contexts["onnxruntime-cpu"]
    Switchboard(varied, layers, fitting(context, "int8"), context).close()
    gc.collect()
    save(varied, tmp_path / "after.onnx")
    assert (tmp_path / "before.onnx").read_bytes() == (tmp_path / "after.onnx").read_bytes()


def test_without_any_form_it_only_runs_the_model(varied, layers, contexts, samples, exact):
    with Switchboard(varied, layers, {}, contexts["onnxruntime-cpu"]) as board:
        assert board.pairs == ()
        assert compare_outputs(exact, board.run_all({}, samples)).snr_db > 120


def test_its_own_input_is_not_taken_for_one_of_the_model(board, samples):
    assert GATES not in samples.feeds(0)
    with pytest.raises(KeyError):
        board.run({"no such layer": "int8"}, samples.feeds(0))
