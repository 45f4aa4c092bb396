import numpy as np
import pytest

from edgeopt.errors import ModelError
from edgeopt.graph.analysis import TensorFacts
from edgeopt.graph.analysis.cost import Operand, cost_of
from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.openvino_ir import analyze_ir, layer_call, layer_type
from edgeopt.graph.analysis.records import AnalysisOptions


def operands(*shapes):
    return [Operand(str(place), shape, 32) for place, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "data", "macs"),
    [
        ("Convolution", [(1, 3, 4, 4), (8, 3, 3, 3)], (1, 8, 4, 4), {}, 128 * 27),
        ("GroupConvolution", [(1, 8, 4, 4), (8, 1, 1, 3, 3)], (1, 8, 4, 4), {}, 128 * 9),
        ("MatMul", [(7, 5), (7, 3)], (5, 3), {"transpose_a": "true", "transpose_b": "false"}, 15 * 7),
        (
            "LSTMSequence",
            [(2, 5, 3), (2, 1, 4), (2, 1, 4), (2,), (1, 16, 3), (1, 16, 4), (1, 16)],
            (2, 1, 5, 4),
            {"hidden_size": "4"},
            10 * (48 + 64),
        ),
    ],
)
def test_layers_cost_what_their_operators_cost(kind, inputs, output, data, macs):
    assert cost_of(layer_call(kind, operands(*inputs), operands(output), data)).macs == macs


def test_pools_know_their_kernel():
    cost = cost_of(layer_call("AvgPool", operands((1, 2, 4, 4)), operands((1, 2, 2, 2)), {"kernel": "2,2"}))
    assert cost.operations == 8 * 4


def test_a_layer_that_nobody_knows_is_unknown():
    assert layer_type("FarLayer") == "unknown"
    assert cost_of(layer_call("FarLayer", operands((1,)), operands((1,)), {})).unknown


@pytest.fixture(scope="module")
def saved(tmp_path_factory, conv_model):
    """The convolution as OpenVINO writes it, with weights in half the bits."""
    openvino = pytest.importorskip("openvino")
    folder = tmp_path_factory.mktemp("ir")
    openvino.save_model(openvino.convert_model(conv_model), folder / "conv.xml", compress_to_fp16=True)
    return folder / "conv.xml"


def test_the_model_of_an_ir(saved):
    found = analyze_ir(saved)
    assert (found.kind, found.format, found.ir_version) == ("model", "OpenVINO IR", 11)
    assert found.inputs == (TensorFacts("x", "float32", (None, 3, 16, 16)),)
    assert found.outputs == (TensorFacts("y", "float32", (None, 10)),)
    assert {row.operator for row in found.operators} >= {"Convolution", "ReLU", "MatMul"}
    assert found.nodes_count == len(found.nodes) == sum(row.count for row in found.operators)
    assert [file.name for file in found.external_files] == ["conv.bin"]
    assert found.size_bytes == saved.stat().st_size + saved.with_suffix(".bin").stat().st_size
    assert found.warnings == ()


def test_compressed_weights_belong_to_the_node_that_uses_them(saved):
    found = analyze_ir(saved)
    convolution = next(row for row in found.nodes if row.operator == "Convolution")
    assert (convolution.weights_bytes, convolution.parameters) == (16 * 27 * 2, 16 * 27)
    assert convolution.outputs[0].shape == (None, 16, 16, 16)
    assert found.weights[0].dtype == "float16"
    assert found.weights[0].size_bytes == 864
    assert found.weights_bytes <= saved.with_suffix(".bin").stat().st_size


def test_layers_cost_what_the_nodes_of_the_source_cost(saved, conv_model):
    found, source = analyze_ir(saved), analyze_onnx(conv_model)
    assert found.work.macs == source.work.macs > 0
    assert (found.work.unknown, found.work.shapes) == (0, ("x[0] = 1 (assumed)",))
    assert "unknown" not in {row.category for row in found.categories}
    assert analyze_ir(saved, AnalysisOptions(shapes={"x": (4, 3, 16, 16)})).work.macs == 4 * found.work.macs


def test_neither_openvino_nor_the_weights_are_needed(saved, tmp_path):
    alone = tmp_path / "conv.xml"
    alone.write_bytes(saved.read_bytes())
    found = analyze_ir(alone)
    assert found.weights_bytes == analyze_ir(saved).weights_bytes
    assert any("conv.bin" in warning for warning in found.warnings)


def test_a_branch_inside(tmp_path):
    openvino = pytest.importorskip("openvino")
    ops = openvino.opset13

    def body(operation):
        parameter = ops.parameter([2], np.float32)
        return openvino.Model([ops.result(operation(parameter))], [parameter]), parameter

    condition, x = ops.parameter([], np.bool_, name="c"), ops.parameter([2], np.float32, name="x")
    chosen = ops.if_op(condition)
    (then, then_x), (other, other_x) = body(ops.relu), body(ops.exp)
    chosen.set_then_body(then)
    chosen.set_else_body(other)
    chosen.set_input(x.output(0), then_x, other_x)
    out = chosen.set_output(then.results[0], other.results[0])
    openvino.save_model(openvino.Model([ops.result(out)], [condition, x]), tmp_path / "if.xml")
    found = analyze_ir(tmp_path / "if.xml")
    assert {(row.operator, row.inside.rpartition("/")[2]) for row in found.nodes} == {
        ("If", ""),
        ("ReLU", "then_body"),
        ("Exp", "else_body"),
    }
    assert [(t.name, t.dtype, t.shape) for t in found.inputs] == [("c", "bool", ()), ("x", "float32", (2,))]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<net", "not a readable"),
        ("", "not a readable"),
        ("<html/>", "not an OpenVINO model"),
        (None, "There is no file"),
    ],
)
def test_what_is_no_ir(tmp_path, text, says):
    path = tmp_path / "m.xml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ModelError, match=says) as raised:
        analyze_ir(path)
    assert raised.value.hint


def test_entities_that_grow_are_refused(tmp_path):
    steps = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10}">' for k in range(1, 12))
    text = f'<!DOCTYPE net [<!ENTITY e0 "{"x" * 100}">{steps}]><net name="&e11;"><layers/></net>'
    (tmp_path / "m.xml").write_text(text)
    with pytest.raises(ModelError, match="not a readable"):
        analyze_ir(tmp_path / "m.xml")
