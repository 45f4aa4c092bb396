from edgeopt.graph.analysis import OpTimeRow
from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.model import load, save
from edgeopt.quant.forms import FormContext
from edgeopt.quant.layers import find_layers
from edgeopt.quant.measured.timing.courses import territory_of
from edgeopt.quant.records import QuantSettings, Range
from edgeopt.quant.write import tensors_wanted, write


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
    context = FormContext("onnxruntime-cpu", settings, ranges)
    path = tmp_path / "second.onnx"
    save(write(model, stack_layers, {"MatMul_2": "int8"}, context).model, path)

    home = territory_of(analyze_onnx(stack_model).nodes, stack_layers)
    nodes = analyze_onnx(path).nodes
    there = territory_of(nodes, stack_layers, home)

    new = [row for row in nodes if row.operator in {"QuantizeLinear", "DequantizeLinear"}]
    assert new
    assert all(there.of(kernel(row.name)) == {"MatMul_2": 1.0} for row in new)
    assert there.of(kernel("Relu_1")) == {"MatMul_0": 1.0}
