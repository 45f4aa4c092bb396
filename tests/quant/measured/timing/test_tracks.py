import msgspec
import pytest

from edgeopt.graph.accuracy import compare_outputs
from edgeopt.quant.measured.planning.entry import options_for, quantized, settings_for, share_of
from edgeopt.quant.measured.timing.courses import GROUPS, Course
from edgeopt.quant.measured.timing.gains import Timed, Track, noise_of, worth
from edgeopt.quant.records import Gain


def gains(form, **saves):
    return tuple(Gain(layer, form, 1.0, 1.0 - saved) for layer, saved in saves.items())


def test_what_saves_less_than_timings_differ_by_is_not_tried():
    timed = Timed((*gains("int8", a=0.5, b=0.02, c=-0.2), *gains("int8-dynamic", a=0.04, b=0.02, c=0.0)), 3.0)

    assert worth(timed) == {"a": ("int8",)}


def test_a_layer_that_is_slower_is_tried_where_its_conversions_would_fall_away():
    slower = msgspec.structs.replace(gains("int8", b=-0.1)[0], boundary_ms=0.3)
    timed = Timed((*gains("int8", a=0.5), slower), 3.0)

    assert worth(timed) == {"a": ("int8",), "b": ("int8",)}


def test_the_best_case_takes_each_layers_quickest_form():
    timed = Timed((*gains("int8", a=0.5, b=-0.2), *gains("int8-groups", a=0.6, b=0.1)), 3.0)

    assert Track(Course("openvino-cpu"), timed, {}).best_ms == pytest.approx(3.0 - 0.6 - 0.1)


def test_noise_is_over_the_signal_of_each_output():
    import numpy as np

    reference = [{"a": np.ones(4), "b": np.full(4, 10.0)}]
    got = [{"a": np.full(4, 1.1), "b": np.full(4, 10.1)}]

    assert noise_of(compare_outputs(reference, got)) == pytest.approx((1e-2, 1e-4))


def test_the_group_size_is_an_option_only_of_what_is_quantized_by_groups():
    course = Course("openvino-cpu", {"precision": "f32", GROUPS: 128})

    assert options_for(course, {"a": "int8-groups", "b": "int8"}) == course.options
    assert options_for(course, {"b": "int8"}) == {"precision": "f32"}
    # OpenVINO would quantize the activations of weights in eight bits too.
    assert options_for(course, {"a": "w8"}) == {"precision": "f32", GROUPS: 0}
    assert settings_for(course) == {"group_size": 128, "block_size": 128}
    assert settings_for(course.having(**{GROUPS: 32})) == {"group_size": 32, "block_size": 64}
    assert settings_for(course, {"b": "int8"}) == {}


def test_the_share_counts_multiply_adds(stack_layers):
    assert share_of(stack_layers, {"MatMul_0": "int8", "MatMul_2": "float"}) == pytest.approx(1 / 3)
    assert quantized({"a": "int8", "b": "float"}) == {"a": "int8"}
