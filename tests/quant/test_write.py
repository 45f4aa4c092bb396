import dataclasses

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.errors import ModelError, UsageError
from edgeopt.graph.model import load, save
from edgeopt.quant.layers import find_layers
from edgeopt.quant.records import FLOAT, QuantSettings
from edgeopt.quant.schemes import SCHEMES, scheme_named
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import seeded, write_onnx
from tests.quant.small_models import case, odd_net, picture_net, ranges, run, snr_db, token_net

BACKENDS = ("onnxruntime-cpu", "openvino-cpu", "onnxruntime-tensorrt", "onnxruntime-qnn")


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nets")
    return [picture_net(folder), token_net(folder), odd_net(folder)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("written") / "model.onnx"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.integers(0, 2), backend=st.sampled_from(BACKENDS), data=st.data())
def test_any_choice_gives_a_valid_model_that_is_nearly_the_same(nets, place, which, backend, data):
    one = nets[which]
    context = one.context(backend, block_size=16, group_size=16)
    choices = {}
    for layer in one.layers:
        fitting = [f.name for f in SCHEMES if f.name not in {"bf16", "w4"} and not f.fits(layer, context)]
        choices[layer.name] = data.draw(st.sampled_from([FLOAT, *fitting]))
    save(write(one.model, one.layers, choices, context).model, place)
    onnx.checker.check_model(str(place))
    proto, source = onnx.load(place), onnx.load(one.path)
    assert proto.graph.input == source.graph.input
    assert proto.graph.output == source.graph.output
    assert snr_db(one.answers(), run(place, one.feeds)) > 22


def test_the_given_model_stays_as_it_is(nets, tmp_path):
    one = nets[0]
    save(one.model, tmp_path / "before.onnx")
    one.written("int8", one.context("onnxruntime-cpu"), tmp_path / "q.onnx")
    save(one.model, tmp_path / "after.onnx")
    assert (tmp_path / "before.onnx").read_bytes() == (tmp_path / "after.onnx").read_bytes()


def test_the_same_choices_give_the_same_bytes(nets, tmp_path):
    one = nets[0]
    first, second = (
        one.written("int8", one.context("onnxruntime-cpu"), tmp_path / name).read_bytes() for name in ("a", "b")
    )
    assert first == second


def test_float_layers_are_untouched_and_no_choice_changes_nothing(nets, tmp_path):
    one = nets[0]
    context = one.context("openvino-cpu")
    save(write(one.model, one.layers, {}, context).model, tmp_path / "none.onnx")
    assert snr_db(one.answers(), one.answers(tmp_path / "none.onnx")) > 150
    written = write(one.model, one.layers, {one.layers[0].name: "int8"}, context)
    save(written.model, tmp_path / "one.onnx")
    weights = {weight.name for weight in onnx.load(tmp_path / "one.onnx").graph.initializer}
    assert {"k2", "k3", "k4", "w5"} <= weights
    assert "k1" not in weights
    assert [change.nodes for change in written.changes] == [one.layers[0].nodes]


def test_weights_that_preparation_changed_are_written(nets, tmp_path):
    one = nets[0]
    context = one.context("openvino-cpu")
    zeros = type(context)(
        context.backend, context.settings, context.ranges, {"k4": np.zeros((24, 32, 1, 1), "f4")}
    )
    layer = next(each for each in one.layers if each.weight == "k4")
    for form in ("int8", "w8", "int8-dynamic"):
        save(write(one.model, one.layers, {layer.name: form}, zeros).model, tmp_path / "z.onnx")
        answers = one.answers(tmp_path / "z.onnx")
        assert all(np.array_equal(answer["y"], answers[0]["y"]) for answer in answers), form


def test_the_opset_is_raised_where_a_form_needs_it(tmp_path):
    path = write_onnx(
        tmp_path / "m.onnx",
        [("MatMul", ["x", "w"], ["y"], {})],
        {"w": seeded(64, 32)},
        {"x": [1, 64]},
        {"y": [1, 32]},
        opset=11,
    )
    one = case(path, [{"x": seeded(1, 64)}])
    for form, opset in (("int8", 13), ("w8", 21)):
        proto = onnx.load(one.written(form, one.context("openvino-cpu"), tmp_path / "q.onnx"))
        assert {entry.version for entry in proto.opset_import if not entry.domain} == {opset}


def test_what_cannot_be_raised_says_so(tmp_path):
    inner = onnx.helper.make_function(
        "own", "Same", ["a"], ["b"], [onnx.helper.make_node("Identity", ["a"], ["b"])],
        [onnx.helper.make_opsetid("", 17)],
    )  # fmt: skip
    path = write_onnx(
        tmp_path / "m.onnx",
        [("MatMul", ["x", "w"], ["y"], {})],
        {"w": seeded(64, 32)},
        {"x": [1, 64]},
        {"y": [1, 32]},
    )
    proto = onnx.load(path)
    proto.functions.append(inner)
    onnx.save(proto, path)
    one = case(path, [{"x": seeded(1, 64)}])
    with pytest.raises(ModelError, match="cannot be raised to opset 21, which the scheme needs"):
        one.written("w8", one.context("openvino-cpu"), tmp_path / "q.onnx")


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"nothing": "int8"}, "no layer 'nothing'"),
        ({"Conv_0": "int9"}, "no scheme 'int9'"),
        ({"Conv_0": "w4"}, "'Conv_0' cannot be w4: it is not a product with a weight matrix"),
    ],
)
def test_impossible_choices_are_refused(nets, choices, said):
    one = nets[0]
    with pytest.raises(UsageError, match=said):
        write(one.model, one.layers, choices, one.context("openvino-cpu"))


def test_a_form_by_name_and_what_was_meant():
    assert scheme_named("w4").name == "w4"
    with pytest.raises(UsageError) as caught:
        scheme_named("int8-group")
    assert "int8-groups" in str(caught.value.hint)


def test_ranges_are_wanted_for_what_forms_ask_for_and_no_more(nets):
    one = nets[0]
    wanted = tensors_wanted(one.model, one.layers, QuantSettings())
    assert {"x", "r1", "r2", "c3", "sum", "pool", "gate", "silu", "joined", "flat", "c4"} <= set(wanted)
    assert not {"c1", "c2", "y", "zero"} & set(wanted), "a Relu or Clip tells the range of what is before it"
    order = [value for node in onnx.load(one.path).graph.node for value in node.output]
    assert list(wanted[1:]) == sorted(wanted[1:], key=order.index)


def test_a_range_that_was_forgotten_is_named(nets):
    one = nets[0]
    known = {name: kept for name, kept in one.ranges.items() if name != "c4"}
    context = one.context("onnxruntime-cpu")
    with pytest.raises(LookupError, match="'c4' was not calibrated"):
        write(
            one.model,
            one.layers,
            one.choices("int8", context),
            type(context)("onnxruntime-cpu", context.settings, known),
        )


def test_open_dimensions_stay_open(nets, tmp_path):
    one = nets[0]
    batch = {"x": np.concatenate([feed["x"] for feed in one.feeds])}
    wanted = np.concatenate([answer["y"] for answer in one.answers()])
    for form in ("int8", "int8-groups", "int8-dynamic", "w8", "fp16"):
        path = one.written(
            form, one.context("onnxruntime-qnn" if form == "fp16" else "onnxruntime-cpu"), tmp_path / "q"
        )
        (answer,) = run(path, [batch])
        assert answer["y"].shape == (6, 10)
        assert snr_db([{"y": wanted}], [answer]) > 25


def test_layers_of_a_written_model_can_be_found_again(nets, tmp_path):
    """A model that has been quantized once is taken as it is: what is left of it in floats may still change."""
    one = nets[0]
    half = {layer.name: "int8" for layer in one.layers[:2]}
    save(write(one.model, one.layers, half, one.context("onnxruntime-cpu")).model, tmp_path / "q.onnx")
    model = load(tmp_path / "q.onnx").ir
    layers = find_layers(model, {"x": (1, 3, 8, 8)})
    left = [layer for layer in layers if not layer.reason]
    assert [layer.operator for layer in left] == ["Conv", "Conv", "Gemm"]
    found = ranges(tmp_path / "q.onnx", tensors_wanted(model, layers, QuantSettings()), one.feeds)
    context = dataclasses.replace(one.context("onnxruntime-cpu"), ranges=found)
    save(write(model, layers, {layer.name: "int8" for layer in left}, context).model, tmp_path / "qq.onnx")
    assert snr_db(one.answers(), run(tmp_path / "qq.onnx", one.feeds)) > 25
