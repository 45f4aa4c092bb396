import json

import msgspec
import pytest

from edgeopt import samples
from edgeopt.cli.main import run
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


def test_tables_for_people(analyze):
    out = analyze(samples.MODEL).out
    for wanted in ("digits_cnn.onnx", "opset ai.onnx 18", "[batch, 1, 32, 32]", "Conv ", "█", "largest weights"):
        assert wanted in out
    assert "node_linear" not in out


def test_the_nodes_are_printed_where_asked_for(analyze):
    out = analyze(samples.MODEL, "--nodes").out
    assert "node_linear" in out
    assert "[10, 64]" in out


def test_a_bundle_says_what_it_is(analyze, conv_bundle):
    out = analyze(conv_bundle).out
    assert "onnxruntime-cpu threads=1" in out
    assert "a test" in out


def test_names_are_shown_as_they_are(analyze, tmp_path):
    from onnx import helper, save

    ports = [[helper.make_tensor_value_info(name, 1, ["[dim]n", None])] for name in ("[bold]x", "[/]")]
    graph = helper.make_graph([helper.make_node("Relu", ["[bold]x"], ["[/]"], "[red]node")], "g", *ports)
    path = tmp_path / "m [i].onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    out = analyze(path, "--nodes").out
    for wanted in ("m [i].onnx", "[bold]x", "[/]", "[red]node", "?"):
        assert wanted in out


def test_what_is_no_model_is_bad_input(analyze, tmp_path):
    (tmp_path / "m.onnx").write_text("not found")
    told = analyze(tmp_path / "m.onnx", code=3)
    assert "a text file" in told.err
    assert told.out == ""
