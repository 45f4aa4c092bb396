import msgspec
import numpy as np
import pytest

from edgeopt.errors import EdgeoptError, MissingError, UsageError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.analysis import OpTimeRow
from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.model import load, save
from edgeopt.profiles.targets import profile_for
from edgeopt.quant.layers import find_layers
from edgeopt.quant.measured.planning.entry import options_for, quantized, settings_for, share_of
from edgeopt.quant.measured.timing.configs import (
    GROUPS,
    ExecutionConfig,
    backends_for,
    configs_for,
    exact,
    is_inexact,
    territory_of,
)
from edgeopt.quant.measured.timing.gains import (
    ConfigGains,
    TimedKernels,
    noise_of,
    time_schemes,
    unfit_reasons,
    worth,
)
from edgeopt.quant.records import LayerGain, QuantSettings, Range
from edgeopt.quant.schemes import SchemeContext, scheme_named
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import this_device
from tests.families.stack import ROWS, WIDTH

FEEDS = {"x": np.random.default_rng(3).standard_normal((ROWS, WIDTH)).astype(np.float32)}


@pytest.fixture
def quantized_stack(study):
    study.calibrated()
    path = study.folder / "all.onnx"
    study.save_written({layer.name: "int8" for layer in study.layers}, "onnxruntime-cpu", path)
    return path


def test_kernels_are_timed_by_layer(study, quantized_stack):
    timed = time_schemes(study.path, {"int8": quantized_stack}, study.layers, "onnxruntime-cpu", {}, FEEDS)

    assert {gain.layer for gain in timed.gains} == {"MatMul_0", "MatMul_2", "MatMul_4"}
    assert all(gain.basis == "measured" and gain.float_ms > 0 and gain.scheme_ms > 0 for gain in timed.gains)
    # Nothing of this model is outside its layers.
    assert sum(gain.float_ms for gain in timed.gains) == pytest.approx(timed.float_ms, rel=0.5)
    assert {(each.first, each.second) for each in timed.borders} == {
        ("MatMul_0", "MatMul_2"),
        ("MatMul_2", "MatMul_4"),
    }


def test_only_what_the_form_changed_has_a_gain(study):
    study.calibrated()
    path = study.folder / "one.onnx"
    study.save_written({"MatMul_2": "int8"}, "onnxruntime-cpu", path)

    found = time_schemes(study.path, {"int8": path}, study.layers, "onnxruntime-cpu", {}, FEEDS).gains

    assert [gain.layer for gain in found] == ["MatMul_2"]
    assert found[0].boundary_ms > 0


def test_a_form_that_does_not_run_is_left_out_and_said(study, quantized_stack, tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(study.path.read_bytes())
    import onnx

    model = onnx.load(broken)
    model.graph.node[0].op_type = "NoSuchOperator"
    model.graph.node[0].domain = "nowhere"
    model.opset_import.add(domain="nowhere", version=1)
    onnx.save(model, broken)

    files = {"int8": quantized_stack, "int8-dynamic": broken}
    timed = time_schemes(study.path, files, study.layers, "onnxruntime-cpu", {}, FEEDS)

    assert {gain.scheme for gain in timed.gains} == {"int8"}
    assert "int8-dynamic" in timed.warnings[0]


def test_without_times_of_kernels_the_roofline_estimates(study, quantized_stack):
    timed = time_schemes(study.path, {"int8": quantized_stack}, study.layers, "onnxruntime-cuda", {}, FEEDS)

    assert {gain.basis for gain in timed.gains} == {"estimated"}
    assert all(gain.saves_ms > 0 for gain in timed.gains)
    assert "estimated" in timed.warnings[0]


def test_the_float_model_must_be_there(study):
    with pytest.raises(EdgeoptError):
        time_schemes(study.folder / "none.onnx", {}, study.layers, "onnxruntime-cpu", {}, FEEDS)


@pytest.fixture(scope="module")
def device():
    return this_device()


def with_simd(device, *names):
    return msgspec.structs.replace(device, cpu=msgspec.structs.replace(device.cpu, simd=names))


def test_openvino_computes_floats_in_both_precisions_where_the_processor_has_both(device):
    found = configs_for(("onnxruntime-cpu", "openvino-cpu"), {}, with_simd(device, "avx512-bf16"))

    assert [course.name for course in found] == [
        "onnxruntime-cpu",
        "openvino-cpu (precision=f32)",
        "openvino-cpu (precision=bf16)",
    ]
    assert [is_inexact(course) for course in found] == [False, False, True]


def test_elsewhere_in_floats_alone(device):
    found = configs_for(("openvino-cpu",), {}, with_simd(device, "avx2"))

    assert [course.options for course in found] == [{"precision": "f32"}]


def test_a_precision_that_was_given_is_the_only_one(device):
    found = configs_for(("openvino-cpu",), {"precision": "bf16"}, with_simd(device, "avx512-bf16"))

    assert found == (ExecutionConfig("openvino-cpu", {"precision": "bf16"}),)


def test_what_the_runtime_chooses_by_itself_may_be_fewer_bits(device):
    (course,) = configs_for(("openvino-cpu",), {"precision": ""}, with_simd(device, "avx512-bf16"))

    assert is_inexact(course)
    assert exact(course).options == {"precision": "f32"}


def test_options_must_be_the_backends_own(device):
    with pytest.raises(UsageError, match="no option 'speed'"):
        configs_for(("onnxruntime-cpu",), {"speed": "high"}, device)


def test_the_backend_that_is_named_must_be_here(device):
    profile = profile_for(device)
    assert backends_for("onnxruntime-cpu", profile) == ("onnxruntime-cpu",)
    with pytest.raises(MissingError, match="is not available"):
        backends_for("onnxruntime-tensorrt", profile)
    with pytest.raises(UsageError, match="no backend 'onnx'"):
        backends_for("onnx", profile)


def test_those_of_the_profile_that_are_here(device):
    found = backends_for("", profile_for(device))

    assert "onnxruntime-cpu" in found
    assert "onnxruntime-cuda" not in found


def kernel(*members, time_ms=1.0):
    return OpTimeRow("kernel", "Any", time_ms, 1.0, members)


def test_a_layer_owns_what_follows_it(conv_model):
    layers = find_layers(load(conv_model).ir, {"x": (1, 3, 16, 16)})
    home = territory_of(analyze_onnx(conv_model).nodes, layers)

    assert home.of(kernel("Conv_0", "Relu_1")) == {"Conv_0": 1.0}
    assert home.of(kernel("GlobalAveragePool_3")) == {"Conv_0": 1.0}
    assert home.of(kernel("Gemm_5")) == {"Gemm_5": 1.0}


def test_what_comes_before_all_layers_is_nobodys(models, conv_model):
    layers = [layer for layer in find_layers(load(conv_model).ir) if layer.name == "Gemm_5"]
    home = territory_of(analyze_onnx(conv_model).nodes, layers)

    assert home.of(kernel("Conv_0")) == {}


def test_a_kernel_of_two_layers_is_shared_by_their_work(stack_model, stack_layers):
    home = territory_of(analyze_onnx(stack_model).nodes, stack_layers)

    assert home.of(kernel("MatMul_0", "MatMul_2")) == {"MatMul_0": 0.5, "MatMul_2": 0.5}


def test_conversions_belong_to_the_layer_that_needs_them(stack_model, stack_layers, tmp_path):
    """Those before a layer to it; those that turn its result into floats too, not to who reads the floats."""
    model = load(stack_model).ir
    settings = QuantSettings()
    ranges = {name: Range(-4.0, 4.0) for name in tensors_wanted(model, stack_layers, settings)}
    context = SchemeContext("onnxruntime-cpu", settings, ranges)
    path = tmp_path / "second.onnx"
    save(write(model, stack_layers, {"MatMul_2": "int8"}, context).model, path)

    home = territory_of(analyze_onnx(stack_model).nodes, stack_layers)
    nodes = analyze_onnx(path).nodes
    there = territory_of(nodes, stack_layers, home)

    new = [row for row in nodes if row.operator in {"QuantizeLinear", "DequantizeLinear"}]
    assert new
    assert all(there.of(kernel(row.name)) == {"MatMul_2": 1.0} for row in new)
    assert there.of(kernel("Relu_1")) == {"MatMul_0": 1.0}


def gains(form, **saves):
    return tuple(LayerGain(layer, form, 1.0, 1.0 - saved) for layer, saved in saves.items())


def test_what_saves_less_than_timings_differ_by_is_not_tried():
    timed = TimedKernels(
        (*gains("int8", a=0.5, b=0.02, c=-0.2), *gains("int8-dynamic", a=0.04, b=0.02, c=0.0)), 3.0
    )

    assert worth(timed) == {"a": ("int8",)}


def test_a_layer_that_is_slower_is_tried_where_its_conversions_would_fall_away():
    slower = msgspec.structs.replace(gains("int8", b=-0.1)[0], boundary_ms=0.3)
    timed = TimedKernels((*gains("int8", a=0.5), slower), 3.0)

    assert worth(timed) == {"a": ("int8",), "b": ("int8",)}


def test_the_best_case_takes_each_layers_quickest_form():
    timed = TimedKernels((*gains("int8", a=0.5, b=-0.2), *gains("int8-groups", a=0.6, b=0.1)), 3.0)

    assert ConfigGains(ExecutionConfig("openvino-cpu"), timed, {}).best_ms == pytest.approx(3.0 - 0.6 - 0.1)


def test_noise_is_over_the_signal_of_each_output():
    import numpy as np

    reference = [{"a": np.ones(4), "b": np.full(4, 10.0)}]
    got = [{"a": np.full(4, 1.1), "b": np.full(4, 10.1)}]

    assert noise_of(compare_outputs(reference, got)) == pytest.approx((1e-2, 1e-4))


def test_the_group_size_is_an_option_only_of_what_is_quantized_by_groups():
    course = ExecutionConfig("openvino-cpu", {"precision": "f32", GROUPS: 128})

    assert options_for(course, {"a": "int8-groups", "b": "int8"}) == course.options
    assert options_for(course, {"b": "int8"}) == {"precision": "f32"}
    # OpenVINO would quantize the activations of weights in eight bits too.
    assert options_for(course, {"a": "w8"}) == {"precision": "f32", GROUPS: 0}
    assert settings_for(course) == {"group_size": 128, "block_size": 128}
    assert settings_for(course.having(**{GROUPS: 32})) == {"group_size": 32, "block_size": 64}
    assert settings_for(course, {"b": "int8"}) == {}


def test_a_layer_that_one_scheme_fits_is_not_called_unfit_for_another(study):
    study.calibrated()
    config = ExecutionConfig("openvino-cpu", {"precision": "f32", GROUPS: 2 * WIDTH})
    assert all(study.reasons_against(scheme_named("int8-groups"), config.backend, **settings_for(config)).values())
    found = unfit_reasons(study, ConfigGains(config, TimedKernels((), 1.0), {}))
    assert found.keys() == {"MatMul_0", "MatMul_2", "MatMul_4"}
    assert set(found.values()) == {"it is not faster in any scheme here"}


def test_the_share_counts_multiply_adds(stack_layers):
    assert share_of(stack_layers, {"MatMul_0": "int8", "MatMul_2": "float"}) == pytest.approx(1 / 3)
    assert quantized({"a": "int8", "b": "float"}) == {"a": "int8"}
