import json

import msgspec
import numpy as np
import pytest

from edgeopt.cli.main import run
from edgeopt.data import demo as samples
from edgeopt.graph.analysis import Analysis


@pytest.fixture
def analyze(capsys):
    def call(*arguments, code=0):
        assert run(["analyze", *map(str, arguments)]) == code
        return capsys.readouterr()

    return call


def test_a_record_as_json(analyze):
    out = analyze(samples.MODEL, "--json").out
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["kind"]) == ("result", "analyze")
    found = msgspec.convert(last["data"], Analysis)
    assert found.name == "digits_cnn.onnx"
    assert found.nodes_count == len(found.nodes) > 10
    assert found.inputs[0].shape == ("batch", 1, 32, 32)
    assert sum(row.count for row in found.operators) == found.nodes_count
    assert found.work.macs > 1_000_000
    assert found.opportunities
    assert found.coverage


def test_tables_for_people(analyze):
    out = analyze(samples.MODEL).out
    for wanted in (
        *("digits_cnn.onnx", "opset ai.onnx 18", "[batch, 1, 32, 32]", "Conv ", "█", "largest weights"),
        *("MFLOP", "batch = 1 (assumed)", "convolution", "Opportunities", "edgeopt simplify"),
        *("Backends on this device", "onnxruntime-cpu", "edgeopt backends"),
    ):
        assert wanted in out
    assert "node_linear" not in out


def test_what_is_unknown_is_never_a_zero(analyze, tmp_path):
    from onnx import TensorProto, helper, save

    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Odd", ["x"], ["y"], "o", domain="mine")], "g", *ports)
    path = tmp_path / "odd.onnx"
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    out = analyze(path, "--nodes", "--no-run", "--backend", "onnxruntime-cpu").out
    assert "1 node of unknown cost: " in out
    assert "0 FLOP" not in out
    assert out.count("unknown") > 3
    assert "Odd: o: it cannot load the model because of them" in out


def test_nodes_and_weights_are_printed_where_asked_for(analyze):
    out = analyze(samples.MODEL, "--nodes", "--weights", "--backend", "onnxruntime-cpu").out
    assert "node_linear" in out
    assert "[10, 64]" in out
    assert "zeros" in out


def test_a_bundle_says_what_it_is(analyze, conv_bundle):
    out = analyze(conv_bundle, "--backend", "onnxruntime-cpu").out
    assert "onnxruntime-cpu threads=1" in out
    assert "a test" in out


def test_names_are_shown_as_they_are(analyze, tmp_path):
    from onnx import helper, save

    ports = [[helper.make_tensor_value_info(name, 1, ["[dim]n", None])] for name in ("[bold]x", "[/]")]
    graph = helper.make_graph([helper.make_node("Relu", ["[bold]x"], ["[/]"], "[red]node")], "g", *ports)
    path = tmp_path / "m [i].onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    out = analyze(path, "--nodes", "--backend", "onnxruntime-cpu").out
    for wanted in ("m [i].onnx", "[bold]x", "[/]", "[red]node", "?"):
        assert wanted in out


def test_what_is_no_model_is_bad_input(analyze, tmp_path):
    (tmp_path / "m.onnx").write_text("not found")
    told = analyze(tmp_path / "m.onnx", code=3)
    assert "a text file" in told.err
    assert told.out == ""


def test_the_shapes_and_the_data_that_the_user_gives(analyze, matmul_model, tmp_path):
    out = analyze(matmul_model, "--shape", "x=7x32", "--backend", "onnxruntime-cpu").out
    assert "batch = 7 (given)" in out
    np.savez(tmp_path / "my data.npz", x=np.zeros((3, 5, 32), np.float32))
    out = analyze(matmul_model, "--data", tmp_path / "my data.npz", "--backend", "onnxruntime-cpu").out
    assert "batch = 5 (given)" in out
    told = analyze(matmul_model, "--shape", "z=7x32", code=2)
    assert "no input 'z'; its inputs are: x" in told.err


def test_a_document(analyze, conv_model, tmp_path):
    out = analyze(conv_model, "--markdown", tmp_path / "m.md", "--backend", "onnxruntime-cpu").out
    assert out == f"Written: {tmp_path / 'm.md'}\n"
    text = (tmp_path / "m.md").read_text()
    for wanted in (
        "# conv.onnx",
        "## One run",
        "## Opportunities",
        "```\nedgeopt simplify ",
        "| onnxruntime-cpu |",
    ):
        assert wanted in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--json", "--markdown", "m.md"], "exclude each other"),
        (["--profile-ops", "--no-run"], "forbids it"),
        (["--shape", "x"], "is not a shape"),
        (["--backend", "nobody"], "no backend 'nobody'"),
        (["--markdown", "no/such/folder/m.md"], "does not exist"),
    ],
)
def test_wrong_usage(analyze, conv_model, arguments, told):
    out = analyze(conv_model, *arguments, code=2)
    assert told in out.err + out.out


def test_quick_reads_the_model_and_asks_nobody(analyze):
    found = msgspec.convert(
        json.loads(analyze(samples.MODEL, "--quick", "--json").out.splitlines()[-1])["data"], Analysis
    )
    assert found.work.macs > 1_000_000
    assert found.opportunities == found.coverage == ()
    out = analyze(samples.MODEL, "--quick").out
    assert "MFLOP" in out
    assert "could be done" not in out
    assert "could be done" not in analyze(samples.MODEL, "--quick", "--markdown", "-").out
    assert "Leave one" in analyze(samples.MODEL, "--quick", "--backend", "onnxruntime-cpu", code=2).err


def test_quick_times_the_nodes_and_tries_no_passes(analyze):
    told = analyze(samples.MODEL, "--quick", "--profile-ops", "--backend", "onnxruntime-cpu", "--json").out
    data = msgspec.convert(json.loads(told.splitlines()[-1])["data"], Analysis)
    assert data.op_times[0].rows
    assert not data.opportunities
    assert not data.coverage
    assert "trying the passes" not in told
