"""`edgeopt simplify --layout` from the file to the file, proved by a runtime on the source's own samples."""

import json

import numpy as np
import onnx
import onnx.parser
import pytest
import typer
from typer.testing import CliRunner

from edgeopt.cli.simplify import simplify

pytest.importorskip("onnxruntime", reason="verification runs on ONNX Runtime")

RANDOM = np.random.default_rng(5)
HEADER = '<ir_version: 8, opset_import: ["" : 17]> '
NCHW = """g (float[n,3,8,6] x) => (float[n,4] y) {
    c = Conv(x, w) r = Relu(c) p = GlobalAveragePool(r) y = Flatten(p) }"""
NHWC = """g (float[n,8,6,3] x) => (float[n,8,6,4] y) {
    t = Transpose <perm = [0, 3, 1, 2]> (x) c = Conv <pads = [1, 1, 1, 1]> (t, w) r = Relu(c)
    y = Transpose <perm = [0, 2, 3, 1]> (r) }"""


@pytest.fixture
def run(tmp_path):
    """Simplifies a graph in this process: exit code, the result of --json or standard error, the model written."""
    application = typer.Typer()
    application.command()(simplify)

    def call(text, sample, *options):
        proto = onnx.parser.parse_model(HEADER + text)
        weight = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        onnx.save(proto, tmp_path / "model.onnx")
        np.savez(tmp_path / "data.npz", x=RANDOM.standard_normal((2, *sample)).astype(np.float32))
        arguments = ["model.onnx", "-o", "out.onnx", "--data", "data.npz"]
        arguments = [str(tmp_path / each) if "." in each else each for each in arguments]
        found = CliRunner().invoke(application, [*arguments, "--json", *options], catch_exceptions=False)
        if found.exit_code:
            return found.exit_code, found.stdout + found.stderr, None
        return 0, json.loads(found.stdout.strip().splitlines()[-1])["data"], onnx.load(tmp_path / "out.onnx")

    return call


def dims(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize(("text", "sample", "layout", "taken", "given", "left"), [
    (NCHW, (1, 3, 8, 6), "channels-last", ["n", 8, 6, 3], ["n", 4],
     ["Transpose", "Conv", "Relu", "GlobalAveragePool", "Flatten"]),
    (NHWC, (1, 8, 6, 3), "channels-first", ["n", 3, 8, 6], ["n", 4, 8, 6], ["Conv", "Relu"]),
])  # fmt: skip
def test_the_order_changes_and_the_results_do_not(run, text, sample, layout, taken, given, left):
    code, result, model = run(text, sample, "--layout", layout, "--bisect")
    assert (code, result["snr_db"], result["samples"]) == (0, 200.0, 2)
    assert (dims(model.graph.input[0]), dims(model.graph.output[0])) == (taken, given)
    assert [node.op_type for node in model.graph.node] == left
    (turned,) = (each for each in result["ledger"] if "picture-order" in each.values())
    assert turned["applied"][0]["nodes"] == ["x"]
    assert not [each for each in result["ledger"] if each.get("rolled_back")]


def test_with_a_fixed_shape_in_the_order_of_the_source(run):
    code, result, model = run(NCHW, (1, 3, 8, 6), "--layout", "channels-last", "--shape", "x=1x3x8x6")
    assert (code, result["snr_db"]) == (0, 200.0)
    assert dims(model.graph.input[0]) == [1, 8, 6, 3]
    assert not [each for each in result["ledger"] if "fix-shapes" in each.values() and each.get("refused")]


def test_an_unknown_layout_is_a_wrong_call(run):
    code, said, _ = run(NCHW, (1, 3, 8, 6), "--layout", "nhwc")
    assert code == 2
    assert "no layout 'nhwc'" in said


def test_the_line_that_measures_another_layout_leaves_the_source_out(edgeopt_here, conv_model):
    """The source takes other inputs, so that `bench` would refuse it."""
    code, output, errors = edgeopt_here("simplify", conv_model, "-o", "cl.onnx", "--layout", "channels-last")
    assert code == 0, errors
    line = output.splitlines()[-1].split()
    assert line == ["edgeopt", "bench", "cl.onnx"]
    code, _, errors = edgeopt_here(*line[1:], "--rounds", "6")
    assert code == 0, errors
